"""
Read a checkpoint from its folder, with prefetching on object stores.

A live checkpoint changes while it is read, so an apparent defect may be half a write. Then the
reader reads again, and reports defects seen both times.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_streaming.checkpoints.integrity.file_logs import sink_problems
from airflow_streaming.checkpoints.integrity.state import Depth
from airflow_streaming.checkpoints.pipeline_storage import flows_in
from airflow_streaming.checkpoints.read.reading import LARGEST, likely_reads, read_checkpoint
from airflow_streaming.checkpoints.read.report import Checkpoint, Finding, FindingCode
from airflow_streaming.checkpoints.vault.layout import STORE
from airflow_streaming.exceptions import CheckpointError, CheckpointRefused, RecordError
from airflow_streaming.model.pipeline.flows import FLOWS
from airflow_streaming.model.spark.listing import Listing, Read
from airflow_streaming.model.uris import is_local, local_path
from airflow_streaming.storage.folders import Entry, Folders, no_folder, open_folders, walk

AT_ONCE: Final = 16
"""Requests under way; the connection pool of most clients has ten to fifty."""

MAX_LOOKS: Final = 3
MAX_QUERIES: Final = 200
"""The most queries of one driver; a folder with more checkpoints holds many streams."""
MAX_NAMED: Final = 3
"""Problems in one message."""
_MARKS: Final = frozenset({"metadata", "offsets", "commits"})


def read_ahead(folders: Folders, paths: Sequence[str]) -> Read:
    """
    Prefetch files and return a reader.

    :param paths: Files to fetch; others are read on demand.
    """

    def fetch(path: str) -> bytes | None:
        try:
            return folders.read(path, LARGEST)
        except RecordError:
            # It has grown, or is not a file: a read of it raises.
            return None

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="checkpoint-read") as pool:
        fetched = dict(zip(paths, pool.map(fetch, paths), strict=True))

    def read(path: str, limit: int) -> bytes | None:
        data = fetched.get(path)
        if data is None or len(data) > limit:
            return folders.read(path, limit)
        return data

    return read


class Reader:
    """
    Reads the checkpoint of one query.

    :param folders: The checkpoint; ``folders.below(name)`` for one of several in a folder.
    :param sink_log: The ``_spark_metadata`` folder of the query's file sink, to be checked too.
    """

    def __init__(self, folders: Folders, sink_log: Folders | None = None) -> None:
        self._folders, self._sink_log = folders, sink_log

    def inspect(self, thorough: bool = False, *, contents: bool = True) -> Checkpoint:
        """
        Return the checkpoint's report.

        :param thorough: Also read every file of the rollback batches.
        :param contents: Read state files; without it, the check is much faster.
        :raises CheckpointError: The folder does not exist, or is too large for a checkpoint.
        """
        depth = _depth(thorough=thorough, contents=contents)
        listing = walk(self._folders)
        found = self._read(listing, depth)
        if not found.files:
            # A new or half-deleted query has folders without files.
            listing = walk(self._folders)
            found = self._read(listing, depth)
        for _ in range(MAX_LOOKS - 1):
            if found.is_sound:
                break
            again = walk(self._folders)
            if again == listing:
                break
            listing, found = again, _seen_twice(found, self._read(again, depth))
        return found

    def _read(self, listing: Listing, depth: Depth) -> Checkpoint:
        uri = self._folders.uri
        read: Read = self._folders.read
        places: list[str] = []
        if is_local(uri):
            places = [os.path.realpath(local_path(uri))]
        else:
            read = read_ahead(self._folders, likely_reads(listing))
        found = read_checkpoint(listing, read, uri=uri, depth=depth, places=places)
        return replace(found, problems=(*found.problems, *self._sink_problems(found)))

    def _sink_problems(self, found: Checkpoint) -> Iterator[Finding]:
        tree = self._sink_log.tree() if self._sink_log else None
        if self._sink_log and tree is not None:
            yield from sink_problems(tree, self._sink_log.read, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFolders:
    """
    The checkpoints at one place.

    :param names: ``("",)`` if the place is a checkpoint, else the names of the checkpoints in it. Of a declarative
        pipeline they are the paths of its flows' newest versions.
    :param problems: Entries that are neither file nor folder; links are not followed.
    """

    names: tuple[str, ...]
    problems: tuple[Finding, ...] = ()


def query_folders(folders: Folders) -> list[str]:
    """
    Return ``[""]`` if the folder is a checkpoint, else the names of the checkpoints in it.

    :raises CheckpointRefused: An entry is a link, which may hide a checkpoint.
    :raises CheckpointError: The folder has no checkpoint, or too many.
    """
    found = find_queries(folders)
    if found.problems:
        messages = " ".join(problem.message for problem in found.problems[:MAX_NAMED])
        raise CheckpointRefused(f"In {folders.uri}: {messages}")
    return list(found.names)


def find_queries(folders: Folders) -> QueryFolders:
    """
    Return the checkpoints and the forbidden entries of a folder, for a report.

    :raises CheckpointError: There is no checkpoint, or too many.
    """
    listed = folders.entries("", list)
    if listed is None:
        raise no_folder(folders.uri)
    if _is_checkpoint(listed):
        return QueryFolders(names=("",))
    below = sorted(entry.name for entry in listed if _may_be_query(entry))
    if len(below) > MAX_QUERIES:
        raise CheckpointError(
            f"{folders.uri} has {len(below)} folders, more than {MAX_QUERIES}. Give the checkpoint "
            "of one query, or the folder of one stream's checkpoints."
        )
    found = [name for name in below if _is_checkpoint(folders.entries(name, _marks) or ())]
    if any(entry.name == FLOWS and entry.is_folder for entry in listed):
        found += flows_in(folders).values()
    strange = sorted(entry.name for entry in listed if entry.strange and _is_shown(entry.name))
    if not found and not strange:
        names = {entry.name for entry in listed}
        raise CheckpointError(_no_checkpoint(folders.uri, names))
    kinds = {entry.name: entry.strange for entry in listed}
    problems = tuple(_beside_queries(name, kinds[name]) for name in strange)
    return QueryFolders(names=tuple(found), problems=problems)


def _beside_queries(name: str, what: str) -> Finding:
    return Finding(
        code=FindingCode.STRANGE_FILE,
        path=name,
        message=f"{name} is neither a file nor a folder: {what}. It was not opened or followed. If a "
        "query's checkpoint lies behind it, give that folder itself; else remove it.",
    )


def _no_checkpoint(uri: str, names: Collection[str]) -> str:
    if not names:
        return f"There is nothing in {uri}: no checkpoint and no folder of one."
    if STORE in names:
        return (
            f"{uri} is a backup store, not a checkpoint. List its content with 'checkpoint list'."
        )
    return (
        f"{uri} is not a checkpoint or a folder of checkpoints: neither it nor a folder in it has "
        "metadata, offsets or commits. Give the folder that the query's checkpointLocation names, "
        "or the one above it."
    )


def inspect(uri: str, storage_options: Mapping[str, Any] | None = None) -> Checkpoint:
    """
    Return what one query's checkpoint says.

    :param uri: The checkpoint, e.g. ``/data/checkpoints/counts`` or ``s3://bucket/ck/counts``.
    :raises CheckpointError: no such folder, or it is a folder of several checkpoints.
    """
    folders = open_folders(uri, storage_options)
    found = Reader(folders).inspect()
    if any(problem.code is FindingCode.NOT_A_CHECKPOINT for problem in found.problems):
        names = query_folders(folders)
        raise CheckpointError(
            f"{folders.uri} is not a checkpoint but a folder of {len(names)}: "
            f"{', '.join(names[:5])}. Give one of them."
        )
    return found


def _depth(*, thorough: bool, contents: bool) -> Depth:
    if not contents:
        return Depth.NAMES
    return Depth.ALL if thorough else Depth.NEXT


def _seen_twice(earlier: Checkpoint, later: Checkpoint) -> Checkpoint:
    seen = {_key(problem) for problem in earlier.problems}
    return replace(
        later, problems=tuple(problem for problem in later.problems if _key(problem) in seen)
    )


def _key(problem: Finding) -> tuple[FindingCode, str]:
    return problem.code, problem.path


def _is_checkpoint(entries: Iterable[Entry]) -> bool:
    return any(entry.name in _MARKS for entry in entries)


def _marks(names: Iterable[str]) -> list[str]:
    return [name for name in names if name in _MARKS]


def _may_be_query(entry: Entry) -> bool:
    return entry.is_folder and _is_shown(entry.name)


def _is_shown(name: str) -> bool:
    return name.isprintable() and name[:1] not in {".", "_"}
