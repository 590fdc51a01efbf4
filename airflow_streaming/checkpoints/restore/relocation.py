"""
Relocation: move a checkpoint that names its own files by absolute paths.

The metadata of an operator with state variables names its schema files by full URIs. Each of them
must be a file of the checkpoint itself; then only its prefix is replaced, in the old spelling,
because Spark compares such URIs as texts. A checkpoint that names other files is refused. The
absolute paths in a file source's log are input files, which stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from airflow_streaming.checkpoints.read.operators import with_schema_paths
from airflow_streaming.exceptions import RecordError, RestoreRefused
from airflow_streaming.model.uris import is_local, local_path, scheme_of, to_hadoop

_METADATA: Final = re.compile(r"state/\d{1,18}/_metadata/v2/\d{1,18}")
_SCHEMA: Final = re.compile(r"(?P<root>.*)/(?P<path>state/\d{1,18}/_stateSchema/.+)")
_SAME_STORE: Final = ({"s3", "s3a", "s3n"}, {"abfs", "abfss"}, {"gs", "gcs"})
"""Schemes that are one store to Spark, by the name its cluster is set up with."""
Has = Callable[[str], bool]
"""Tells whether the checkpoint has a file of that relative path."""


def names_paths(path: str) -> bool:
    """Tell whether a file of a checkpoint may name others by absolute paths."""
    return _METADATA.fullmatch(path) is not None


def relocated(path: str, data: bytes, *, has: Has, to: str) -> bytes:
    """
    Return a file of the checkpoint as it must be at the new place.

    :param has: Tells which files the checkpoint has.
    :param to: URI of the checkpoint's new place.
    :return: The very same bytes for a file that names no paths.
    :raises RestoreRefused: it names a file that the checkpoint does not have, or cannot be read.
    """
    if not names_paths(path):
        return data
    try:
        return with_schema_paths(data, lambda named: moved(named, has=has, to=to))
    except RecordError as err:
        raise RestoreRefused(
            f"{path} names files by absolute paths and cannot be read, so it cannot be moved: {err}"
        ) from err


def moved(named: str, *, has: Has, to: str) -> str:
    """
    Return the new URI of a file in the checkpoint.

    :param named: Its old URI, e.g. ``file:/old/ck/state/0/_stateSchema/default/0_1b4c``.
    :raises RestoreRefused: the checkpoint has no such file.
    """
    # The last place where it fits: a folder above the checkpoint may be called "state" as well.
    match = _SCHEMA.fullmatch(named)
    if match is None or not has(match["path"]):
        raise RestoreRefused(
            f"The checkpoint names {named!r:.300} as its own file and does not have it. It was "
            "moved before without its paths being rewritten, or the file was lost. Restore an "
            "older backup."
        )
    return f"{spelled_like(match['root'], to)}/{match['path']}"


def spelled_like(old: str, new: str) -> str:
    """
    Return a URI in Hadoop's spelling of another one: ``file:/new`` like ``file:/old``.

    If the two are on stores of different kinds, the new one is written as Hadoop does.
    """
    if is_local(new):
        path = local_path(new).rstrip("/")
        if old.startswith("file://"):
            return f"file://{path}"
        return path if old.startswith("/") else f"file:{path}"
    hadoop = to_hadoop(new).rstrip("/")
    scheme, rest = scheme_of(hadoop), hadoop.split("://", 1)[1]
    wanted = scheme_of(old)
    is_same = any({scheme, wanted} <= store for store in _SAME_STORE)
    return f"{wanted}://{rest}" if is_same else hadoop
