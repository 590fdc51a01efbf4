"""
Whether two paths of a file source list the same files now.

Taken for the same are a folder of plain files and a pattern of its names, or two patterns. Folders
below it, and files that Spark hides in a folder and not behind a pattern, make the answer no: they
decide partition columns and what is read. So does a store that cannot be listed from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.gates.change.judge import Matched
from airflow_streaming.gates.change.pair import SameFiles
from airflow_streaming.gates.change.sources import reads
from airflow_streaming.storage.folders import reporting
from airflow_streaming.storage.fsspec_store import open_filesystem

MOST_LISTED: Final = 100_000
"""Files of a folder; a larger one is not compared."""
_PATTERN: Final = re.compile(r"[*?]")
_NOT_UNDERSTOOD: Final = re.compile(r"[\[\]{}\\^]|\*\*")
"""Hadoop's patterns know more than Python's; these are left alone."""
_HIDDEN: Final = ("_", ".")


def same_files(matched: Iterable[Matched], storage_options: Mapping[str, Any] | None) -> SameFiles:
    """
    Return the old and new paths of file sources that list the same files.

    :param storage_options: Passed to fsspec for a path that is not local.
    """
    return frozenset(
        paths for paths in _changed_paths(matched) if _list_the_same(*paths, storage_options)
    )


def _changed_paths(matched: Iterable[Matched]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    for each in matched:
        for old, new in zip(each.old.sources if each.old else (), each.new.sources, strict=False):
            if old.source == new.source == "file" and reads(old) != reads(new):
                yield reads(old), reads(new)


def _list_the_same(
    old: tuple[str, ...], new: tuple[str, ...], storage_options: Mapping[str, Any] | None
) -> bool:
    if len(old) != 1 or len(new) != 1:
        return False
    (before, was), (after, now) = _apart(old[0]), _apart(new[0])
    if not before or before != after:
        return False
    try:
        names = _files_in(before, storage_options)
    except StreamingError:
        return False
    chosen = [_chosen(names, pattern) for pattern in (was, now)]
    return bool(chosen[0]) and chosen[0] == chosen[1]


def _apart(path: str) -> tuple[str, str]:
    """Return a folder and the pattern of names in it; an empty folder where it is not understood."""
    if _NOT_UNDERSTOOD.search(path):
        return "", ""
    folder, _, last = path.rpartition("/")
    if not _PATTERN.search(path):
        return path, ""
    return ("", "") if _PATTERN.search(folder) else (folder, last)


def _files_in(folder: str, storage_options: Mapping[str, Any] | None) -> frozenset[str]:
    """
    Return the names of the files in a folder; nothing where there is something else in it.

    :raises StreamingError: it cannot be listed.
    """
    with reporting(folder):
        fs, root = open_filesystem(folder, "source", storage_options)
        entries = fs.ls(root, detail=True)
    if len(entries) > MOST_LISTED or any(entry["type"] != "file" for entry in entries):
        return frozenset()
    names = [str(entry["name"]).rstrip("/").rpartition("/") for entry in entries]
    if any(above.rstrip("/") != root.rstrip("/") for above, _, _ in names):
        return frozenset()
    return frozenset(name for _, _, name in names)


def _chosen(names: Iterable[str], pattern: str) -> frozenset[str]:
    if pattern:
        return frozenset(name for name in names if fnmatchcase(name, pattern))
    return frozenset(name for name in names if not name.startswith(_HIDDEN))
