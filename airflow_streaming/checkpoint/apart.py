"""Whether places lie apart, once symbolic links are followed; see ``places_apart`` in core."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Final

from airflow_streaming.checkpoint.folders import Folders, LocalFolders, RemoteFolders
from airflow_streaming.checkpoint.layout import STORE
from airflow_streaming.core.checkpoint import places_apart
from airflow_streaming.core.checkpoint.pin_logs import METADATA
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.core.uris import is_local, local_path
from airflow_streaming.exceptions import HomeUnavailable, RecordError, SpecError

_LEVELS: Final = 20
"""Folders above that are looked at, the nearest first; two small files are asked for in each."""


def check_apart(first: str, second: str, *, what: str = "checkpoint", other: str) -> None:
    """
    Refuse two places of which one is the other or lies inside it, as spelt or as it really is.

    :param what: What the first place is, for the message; ``other`` for the second one.
    :raises SpecError: they do not lie apart; both are named as they were given.
    """
    places_apart.check_apart(first, second, what=what, other=other)
    try:
        places_apart.check_apart(_real(first), _real(second), what=what, other=other)
    except SpecError as err:
        raise SpecError(f"{err} They were given as {first} and {second}.") from err


def _real(uri: str) -> str:
    return os.path.realpath(local_path(uri)) if is_local(uri) else uri


def check_outside(place: Folders) -> None:
    """
    Refuse a place for something new that lies inside a checkpoint or a backup store.

    Above the first folder that may not be read, or cannot be just now, nobody looks: credentials
    are often good for one prefix, and a store that is away will say so when it is written.

    :raises SpecError: it does; both are named.
    """
    for above in islice(_above(place), _LEVELS):
        try:
            metadata, mark = _small(above, METADATA), _small(above, STORE)
        except HomeUnavailable:
            return
        places_apart.check_outside(place.uri, above.uri, metadata=metadata, mark=mark)


def _above(place: Folders) -> Iterator[Folders]:
    there = place.elsewhere(METADATA)
    if there is None:
        folder = os.path.realpath(local_path(place.uri))
        while (folder := os.path.dirname(folder)) != "/":  # noqa: PTH120 - no Path is needed
            yield LocalFolders(folder)
        return
    uri, path = place.uri, there.path.removesuffix(f"/{METADATA}")
    while "/" in path.strip("/"):
        uri, path = uri.rpartition("/")[0], path.rpartition("/")[0]
        yield RemoteFolders(there.filesystem, path, uri)


def _small(folder: Folders, name: str) -> bytes | None:
    try:
        return folder.read(name, MAX_LOG_BYTES)
    except RecordError:
        # A folder, a link or something large is none of ours.
        return None
