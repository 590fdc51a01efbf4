"""
The homes that the API server opens, and the addresses it links: decided here, on values alone.

Dags are code that the operator of Airflow has let in. All other sources of a home or an address may
be written by a user or by a stream: XCom, parameters of a run, variables, and the records in a
home.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from airflow_streaming.exceptions import HomeNotAllowed, SpecError
from airflow_streaming.model.uris import check_uri, is_local, scheme_of, to_fsspec

SPELLED_OUT: Final = frozenset(
    {"", "file", "local", "s3", "s3a", "s3n", "gs", "gcs", "az", "adl", "abfs", "abfss"}
)
"""Schemes of homes that need no listing: their URIs cannot choose the host to contact."""
_UI_PATH: Final = re.compile(r"/?|/(?:proxy|history)/[\w.-]{1,200}/?")
"""Paths of a Spark UI, behind the proxy of a cluster too."""
_UI_PORTS: Final = frozenset({None, 80, 443, *range(1024, 65_536)})


def check_home(home: str, *, written: str | None, allowed: Collection[str]) -> None:
    """
    Do nothing for a home that the API server may open.

    :param home: URI of the home, rendered.
    :param written: The same in the dag file; ``None`` if not known.
    :param allowed: The homes that ``[streaming] homes`` names. If empty, a home must be spelled out
        in the dag file, with a scheme that can only lead to its own store.
    :raises HomeNotAllowed: it may not.
    """
    place = _place(home, "home")
    if allowed:
        entries = (_place(entry, "entry of [streaming] homes") for entry in allowed)
        if not any(place == entry or place.startswith(f"{entry}/") for entry in entries):
            raise HomeNotAllowed(
                f"Home {home!r} is not among [streaming] homes, so the API server does not open it. "
                "Add it there, or a folder above it."
            )
        return
    if scheme_of(home) not in SPELLED_OUT:
        raise HomeNotAllowed(
            f"The API server does not open {scheme_of(home)}:// homes unless [streaming] homes "
            f"names them. Add {home!r} there."
        )
    if written != home:
        raise HomeNotAllowed(
            f"Home {home!r} is not spelled out in the dag file: a template, a parameter or a mapped "
            "task gives it, and those can be changed without the dag. Add it to [streaming] homes."
        )


def _place(uri: str, what: str) -> str:
    try:
        place = to_fsspec(check_uri(uri, what))
    except SpecError as err:
        raise HomeNotAllowed(str(err)) from err
    if "::" in place:
        raise HomeNotAllowed(
            f"The {what} {uri!r} chains file systems with '::'. Give the folder itself."
        )
    return posixpath.normpath(place) if is_local(uri) else place


def ui_address(
    url: str | None, *, hosts: Collection[str], allowed: Iterable[str] = ()
) -> str | None:
    """
    Return the address of a Spark UI that a browser may be led to; ``None`` when it may not.

    On an unlisted host the address must have a port and a path of a Spark UI.

    :param url: As the driver's status has it.
    :param hosts: Names in small letters of the hosts that run tasks of the stream's dag, as Airflow
        knows them.
    :param allowed: ``[streaming] ui_hosts``: host names, ``.domain`` for all hosts in one, networks
        such as ``10.0.0.0/8``.
    """
    try:
        parts = urlsplit(url or "")
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not name or "@" in parts.netloc:
        return None
    is_listed = any(_is_in(name, entry.lower()) for entry in allowed)
    # On a worker the forger of a record chooses among all programs that listen there.
    is_ui = name in hosts and port in _UI_PORTS and _UI_PATH.fullmatch(parts.path) is not None
    return _rebuilt(parts, name, port) if is_listed or is_ui else None


def _is_in(name: str, entry: str) -> bool:
    if name == entry or (entry.startswith(".") and name.endswith(entry)):
        return True
    with suppress(ValueError):
        return ip_address(name) in ip_network(entry)
    return False


def _rebuilt(parts: SplitResult, name: str, port: int | None) -> str:
    # Of checked parts, so that a browser cannot read the text in another way than we do.
    shown = f"[{name}]" if ":" in name else quote(name, safe="")
    return f"{parts.scheme}://{shown}{f':{port}' if port else ''}{quote(parts.path, safe='/')}"
