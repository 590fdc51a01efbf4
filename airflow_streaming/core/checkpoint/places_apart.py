"""
Places that have to lie apart: what is copied, and where the copy goes.

A copy inside the checkpoint it is made of would grow into itself, and Spark would find folders in
its checkpoint that it never made. The other way round, whoever clears the copy away clears away
the live checkpoint with it. Somebody else's checkpoint or backup store is no better place for it.
"""

from __future__ import annotations

import posixpath
from typing import Final

from airflow_streaming.core.foreign.tail import parse_query_id
from airflow_streaming.core.uris import is_local, local_path, to_fsspec
from airflow_streaming.exceptions import SpecError

_STORE_KIND: Final = b'"backup-store"'


def check_apart(first: str, second: str, *, what: str, other: str) -> None:
    """
    Refuse two places of which one is the other or lies inside it.

    Nothing is asked of a disk: symbolic links have to be followed before.

    :param first: URI or absolute path, of fsspec's or of Hadoop's spelling; ``second`` likewise.
    :param what: What the first place is, for the message, e.g. ``"checkpoint"``.
    :param other: What the second one is.
    :raises SpecError: they do not lie apart; both are named.
    """
    one, two = _folder(first), _folder(second)
    if one == two:
        how = "are the same place"
    elif two.startswith(one):
        how = f"do not lie apart: the {other} is inside the {what}"
    elif one.startswith(two):
        how = f"do not lie apart: the {what} is inside the {other}"
    else:
        return
    raise SpecError(
        f"The {what} {first} and the {other} {second} {how}. Choose a place for the {other} that "
        "has nothing to do with the checkpoint."
    )


def is_same_place(first: str, second: str) -> bool:
    """Tell whether two URIs are one place by their spelling."""
    return _folder(first) == _folder(second)


def check_outside(place: str, above: str, *, metadata: bytes | None, mark: bytes | None) -> None:
    """
    Refuse a new place whose folder above is a checkpoint or a backup store.

    :param above: The folder above; ``metadata`` and ``mark`` are its files of that name and
        ``store.json``.
    :raises SpecError: it is one of these; both places are named.
    """
    if metadata is not None and parse_query_id(metadata) is not None:
        what, then = "the checkpoint of a query", "Spark would find folders that it never made"
    elif mark is not None and _STORE_KIND in mark:
        what, then = "a backup store", "verification and retention would take it for a part of that"
    else:
        return
    raise SpecError(
        f"{place} lies inside {above}, which is {what}: {then}. Nothing was written. Choose a "
        "place of its own."
    )


def _folder(uri: str) -> str:
    """Return a place with a slash at its end, so that ``/ck`` does not begin ``/ck2``."""
    if is_local(uri):
        # normpath keeps two slashes at the beginning, which are one to every system of ours.
        return "/" + posixpath.normpath(local_path(uri)).strip("/") + "/"
    scheme, rest = to_fsspec(uri).split("://", 1)
    return f"{scheme}://{posixpath.normpath(rest).rstrip('/')}/"
