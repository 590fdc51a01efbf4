"""
The logs of a pinned batch: plans and commits, and what file sources and sinks note in logs of their own.

A file source numbers the files it has seen in a log of its own, and the plan of a batch names the
last entry of it. Every tenth entry, ``K.compact``, has all entries up to it, so that the tail of
the log is enough. The file sink's log is made the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from airflow_streaming.checkpoints.read.file_logs import source_of
from airflow_streaming.checkpoints.read.report import SourceType
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.listing import Listing, Read, is_hidden
from airflow_streaming.model.spark.logs import (
    MAX_LOG_BYTES,
    CommitLog,
    OffsetLog,
    parse_commit_log,
    parse_offset_log,
)
from airflow_streaming.model.spark.tail import batch_of

METADATA: Final = "metadata"
Log = TypeVar("Log", OffsetLog, CommitLog)

COMPACTED_KEPT: Final = 2
"""Spark works out its interval of compaction from the two newest compacted entries."""
_FILE: Final = SourceType.FILE
_ENTRY: Final = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?", re.ASCII)


class Incomplete(NamedTuple):
    """
    A missing or incomplete file of a listing.

    If another walk finds the same, it is damage, unless the file was seen to change.

    :param path: The file or folder, relative to the checkpoint.
    :param is_moving: The file was purged or written during the copy.
    """

    path: str
    why: str
    is_moving: bool = False


class PinnedLogs(NamedTuple):
    """The plans and commits that are read: of the pinned batch and of its neighbors."""

    plan: OffsetLog
    next_plan: OffsetLog | None
    commits: dict[int, CommitLog]


def batches(listing: Listing, folder: str) -> list[int]:
    """Return the batches that a log has a file of, oldest first."""
    found = (batch_of(name) for name in listing.files(folder))
    return sorted(batch for batch in found if batch is not None)


def lacking_log(listing: Listing, batch: int) -> Incomplete | None:
    """
    Return the gap of the two logs right below the batch.

    Gaps further down do no harm: a purge may leave them for a moment.
    """
    if listing.stat(METADATA) is None:
        return Incomplete(METADATA, f"{METADATA} is missing, which holds the query's id.")
    if listing.stat(f"offsets/{batch}") is None:
        return Incomplete(
            f"offsets/{batch}", f"Batch {batch} is committed, but its plan is missing."
        )
    for folder in ("offsets", "commits"):
        numbers = batches(listing, folder)
        if batch - 1 not in numbers and numbers[0] < batch - 1:
            return Incomplete(
                f"{folder}/{batch - 1}",
                f"{folder}/{batch - 1} is missing among others. Either it was lost, or the query "
                "runs with asynchronous progress tracking or in real-time mode, whose checkpoints "
                "cannot be copied while it runs.",
            )
    return None


def read_logs(listing: Listing, read: Read, batch: int) -> PinnedLogs | Incomplete:
    """Read the plans and commits of a batch and of its neighbors."""
    plan = _load(read, f"offsets/{batch}", parse_offset_log)
    following = None
    if listing.stat(f"offsets/{batch + 1}") is not None:
        following = _load(read, f"offsets/{batch + 1}", parse_offset_log)
    if isinstance(plan, Incomplete):
        return plan
    if isinstance(following, Incomplete):
        return following
    commits = {}
    for number in (batch - 1, batch):
        if number != batch and listing.stat(f"commits/{number}") is None:
            continue
        commit = _load(read, f"commits/{number}", parse_commit_log)
        if isinstance(commit, Incomplete):
            return commit
        commits[number] = commit
    return PinnedLogs(plan, following, commits)


def _load(read: Read, path: str, parse: Callable[[bytes], Log]) -> Log | Incomplete:
    try:
        data = read(path, MAX_LOG_BYTES)
        return Incomplete(path, f"{path} is gone.", is_moving=True) if data is None else parse(data)
    except RecordError as err:
        return Incomplete(path, f"{path} cannot be used: {err}")


def logs_up_to(listing: Listing, folder: str, last: int) -> list[str]:
    """Return the files of a log that end with a batch and have no hole, oldest first."""
    numbers, first = set(batches(listing, folder)), last
    while first - 1 in numbers:
        first -= 1
    return [f"{folder}/{batch}" for batch in range(first, last + 1)]


def source_files(listing: Listing, plan: OffsetLog) -> list[str] | Incomplete:
    """
    Return the files of all sources' own logs that a plan needs.

    Logs other than the file source's, e.g. Kafka's initial offsets, are copied whole.
    """
    found: list[str] = []
    ends = {name: source_of(text) for name, text in plan.offsets}
    logs = {name: offset["logOffset"] for name, (kind, offset) in ends.items() if kind is _FILE}
    for name, last in logs.items():
        tail = log_tail(listing, f"sources/{name}", last)
        if isinstance(tail, Incomplete):
            return tail
        found.extend(tail)
    for name in listing.subfolders("sources"):
        if name not in logs:
            found.extend(everything(listing, f"sources/{name}"))
    return found


def log_tail(listing: Listing, folder: str, last: int) -> list[str] | Incomplete:
    """
    Return the newest compacted entries of a log up to an entry, and all entries after them.

    :param last: The last entry that is needed; -1 for none.
    """
    plain, compacted = _entries(listing.files(folder), last)
    kept = compacted[-COMPACTED_KEPT:]
    first = kept[-1] + 1 if kept else 0
    lost = next((entry for entry in range(first, last + 1) if entry not in plain), None)
    prefix = f"{folder}/" if folder else ""
    if lost is not None:
        return Incomplete(
            f"{prefix}{lost}",
            f"{folder or 'The log'} lacks entry {lost}, and entry {last} is needed.",
        )
    names = [f"{entry}.compact" for entry in kept]
    names.extend(str(entry) for entry in range(first, last + 1))
    return [prefix + name for name in names]


def _entries(names: Iterable[str], last: int) -> tuple[set[int], list[int]]:
    plain, compacted = set(), []
    for name in names:
        match = _ENTRY.fullmatch(name)
        if match is None or int(match[1]) > last:
            continue
        if match[2]:
            compacted.append(int(match[1]))
        else:
            plain.add(int(match[1]))
    return plain, sorted(compacted)


def everything(listing: Listing, folder: str) -> Iterator[str]:
    """Yield every file under a folder except hidden and unfinished ones."""
    for name in sorted(listing.files(folder)):
        if not is_hidden(name) and not name.endswith(".tmp"):
            yield f"{folder}/{name}"
    for below in listing.subfolders(folder):
        if not is_hidden(below):
            yield from everything(listing, f"{folder}/{below}")
