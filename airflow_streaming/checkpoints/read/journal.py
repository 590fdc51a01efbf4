"""
The two logs of a checkpoint together, and the batch from which the query continues.

On a restart Spark reads the newest two plans and the newest commit. The other files are for rolling
back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeVar

from airflow_streaming.checkpoints.read.file_logs import source_of
from airflow_streaming.checkpoints.read.report import (
    Finding,
    FindingCode,
    SourcePosition,
    SourceType,
)
from airflow_streaming.checkpoints.state.file_checks import edited
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.listing import Listing, Read
from airflow_streaming.model.spark.logs import (
    MAX_LOG_BYTES,
    CommitLog,
    OffsetLog,
    parse_commit_log,
    parse_offset_log,
)
from airflow_streaming.model.spark.tail import batch_of

OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
MOST_READ: Final = 256
"""Newest files of each log that are read; Spark keeps 100 batches by default."""
PARTITIONS: Final = "spark.sql.shuffle.partitions"
_IDLE_TAIL: Final = 4
"""Number of newest batches searched for one with input; Spark runs one without after each burst."""
_KNOWN: Final = {OFFSETS: ("v1", "v2"), COMMITS: ("v1", "v2", "v3")}
_VERSION: Final = re.compile(rb"v[0-9]{1,9}")
Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """
    Both logs of one checkpoint.

    :param planned: Batches with a file in the offset log, oldest first; ``committed`` likewise.
    :param plans: Parsed plans; ``commits`` likewise.
    :param findings: Files that could not be parsed.
    :param is_async: The logs have the gaps of asynchronous progress tracking: several batches share
        one plan and one commit.
    """

    planned: tuple[int, ...]
    committed: tuple[int, ...]
    plans: Mapping[int, OffsetLog]
    commits: Mapping[int, CommitLog]
    findings: tuple[Finding, ...] = field(default=())
    is_async: bool = False

    @property
    def last_planned(self) -> int | None:
        """Return the newest planned batch."""
        return self.planned[-1] if self.planned else None

    @property
    def last_committed(self) -> int | None:
        """Return the newest committed batch."""
        return self.committed[-1] if self.committed else None

    @property
    def newest_plan(self) -> OffsetLog | None:
        return self.plans.get(self.planned[-1]) if self.planned else None

    @property
    def committed_plan(self) -> OffsetLog | None:
        """Return the plan of the newest committed batch, if it can be read."""
        return self.plans.get(self.committed[-1]) if self.committed else None

    @property
    def newest_commit(self) -> CommitLog | None:
        """Return the newest commit, if it can be read."""
        return self.commits.get(self.committed[-1]) if self.committed else None

    @property
    def next_batch(self) -> int:
        """Return the batch that Spark would run first: a planned one again, or a new one."""
        last_planned, last_committed = self.last_planned, self.last_committed
        if last_committed is None:
            return last_planned or 0
        return max(last_committed + 1, last_planned or 0)

    @property
    def last_possible(self) -> int:
        """Return the newest batch that can have written anything by now."""
        return max(self.last_planned or 0, self.last_committed or 0)


def read_journal(listing: Listing, read: Read) -> Journal:
    """Read the newest files of both logs; a defect becomes a finding."""
    reader = _Reader(listing, read)
    # Offsets first: a batch that is committed in between is seen done, never ahead of its plan.
    plans = reader.read(OFFSETS, parse_offset_log)
    commits = reader.read(COMMITS, parse_commit_log)
    planned = tuple(sorted(reader.batches[OFFSETS]))
    committed = tuple(sorted(reader.batches[COMMITS]))
    return Journal(
        planned=planned,
        committed=committed,
        plans=plans,
        commits=commits,
        findings=tuple(reader.findings),
        is_async=has_async_gaps(planned, committed),
    )


def has_async_gaps(planned: tuple[int, ...], committed: tuple[int, ...]) -> bool:
    """
    Return whether the logs look like asynchronous progress tracking.

    It writes a plan and a commit once in an interval instead of once a batch, so that at least
    every other step skips batches and both logs skip the same ones. With an interval of 0 it writes
    every batch, and looks like any other query.
    """
    if not set(committed) <= set(planned):
        return False
    return _mostly_skips(committed) and (_mostly_skips(planned) or len(committed) > 2)


def _mostly_skips(batches: tuple[int, ...]) -> bool:
    steps = [later - earlier for earlier, later in pairwise(batches)]
    return len(steps) > 1 and 2 * sum(step > 1 for step in steps) >= len(steps)


def log_batches(names: Iterable[str]) -> list[int]:
    """Return the batches among the names of a log's files, oldest first."""
    return sorted(batch for name in names if (batch := batch_of(name)) is not None)


def has_input(read: Read, batch: int) -> bool:
    """Return whether a batch's plan goes beyond the one before; True if unknown."""
    if batch == 0:
        return True
    try:
        plans = [read(f"{OFFSETS}/{number}", MAX_LOG_BYTES) for number in (batch - 1, batch)]
        ends = [None if plan is None else parse_offset_log(plan).offsets for plan in plans]
    except RecordError:
        return True
    return None in ends or ends[0] != ends[1]


def recent_with_input(read: Read, batch: int) -> Iterator[int]:
    """Yield the last few batches back to the newest one with input, newest first."""
    return (n for n in range(batch, max(-1, batch - _IDLE_TAIL), -1) if has_input(read, n))


class _Reader:
    def __init__(self, listing: Listing, read: Read) -> None:
        self._listing, self._read = listing, read
        self.batches: dict[str, set[int]] = {}
        self.findings: list[Finding] = []

    def read(self, log: str, parse: Callable[[bytes], Parsed]) -> dict[int, Parsed]:
        batches = log_batches(self._listing.files(log))
        self.batches[log] = set(batches)
        found = {}
        for batch in batches[-MOST_READ:]:
            parsed = self._one(log, batch, parse, is_needed=batch in batches[-2:])
            if parsed is not None:
                found[batch] = parsed
        return found

    def _one(
        self, log: str, batch: int, parse: Callable[[bytes], Parsed], *, is_needed: bool
    ) -> Parsed | None:
        path, data = f"{log}/{batch}", None
        try:
            data = self._read(path, MAX_LOG_BYTES)
            if data is None:
                # Purged since the walk.
                self.batches[log].discard(batch)
                return None
            parsed = parse(data)
        except RecordError as err:
            self.findings.append(_unreadable(log, path, data, str(err), is_needed))
            return None
        self.findings.extend(edited(self._listing, self._read, path, data))
        return parsed


def _unreadable(log: str, path: str, data: bytes | None, why: str, is_needed: bool) -> Finding:
    version = _VERSION.fullmatch(data.partition(b"\n")[0]) if data else None
    if version is not None and version[0].decode() not in _KNOWN[log]:
        return Finding(
            code=FindingCode.LOG_VERSION_UNKNOWN,
            path=path,
            message=(
                f"{path}: {why} A Spark that does not know the version refuses to start "
                "(UnsupportedLogVersion); others continue. The rest of this checkpoint cannot be "
                "checked by this release of airflow-streaming."
            ),
        )
    if data is None:
        return Finding(
            code=FindingCode.TOO_LARGE,
            path=path,
            message=(
                f"{path} was not read: {why} Spark never writes a log file of that size. Inspect "
                "the file, and restore a verified backup if Spark did not write it."
            ),
        )
    found = f"{path} is empty." if not data.strip() else f"{path} cannot be read: {why}"
    then = (
        "Spark fails on a restart with it ('Failed to read log file', 'Incomplete log file'). "
        "Restore a verified backup into a new place."
        if is_needed
        else "Spark does not read a batch this old on a restart, but the query cannot be rolled "
        "back to it, and files that break by themselves point to the disk. Take a backup now."
    )
    return Finding(code=FindingCode.LOG_UNREADABLE, path=path, message=f"{found} {then}")


def positions(journal: Journal) -> tuple[SourcePosition, ...]:
    """Return the position of each source, in plan order."""
    plan, committed = journal.newest_plan, journal.committed_plan
    before = dict(committed.offsets) if committed else {}
    found = []
    for name, text in plan.offsets if plan else ():
        source, offset = source_of(text)
        was, position = source_of(before[name]) if name in before else (source, None)
        # Before its first offset a source is of the sort that it turns out to be.
        sort = was if source is SourceType.NOT_STARTED else source
        found.append(SourcePosition(name=name, source=sort, offset=offset, committed=position))
    return tuple(found)
