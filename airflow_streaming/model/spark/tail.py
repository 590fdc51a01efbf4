"""
The tail of a checkpoint: which batches are planned and which are committed.

Unreadable content is reported, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.logs import json_object, parse_commit_log, parse_offset_log

RECENT: Final = 20
"""Number of batches whose duration is read; as many as our drivers report."""
_BATCH: Final = re.compile(r"0|[1-9][0-9]{0,17}")
_ID: Final = re.compile(r"\+?[0-9a-fA-F]+(-\+?[0-9a-fA-F]+){4}")
_LONGEST_ID: Final = 36
_LARGEST_PART: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEntry:
    """
    The plan of one batch.

    :param planned_at: When it was planned, by the driver's clock.
    :param watermark: The watermark the batch works with; ``None`` when the query has none yet.
    :param offsets: Where each source ends in this batch, as Spark wrote it; ``-`` for nowhere yet.
    """

    planned_at: datetime | None
    watermark: datetime | None
    offsets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEntry:
    """
    The proof that one batch is done.

    :param watermark: The watermark after the batch; ``None`` when the query has none yet.
    """

    watermark: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """
    A file of a log.

    :param modified: Its time by the store's clock, if the store has one.
    """

    batch: int
    modified: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """
    The newest batches of one query.

    :param name: The last part of the checkpoint's location.
    :param committed: The newest committed batch; ``None`` before the first.
    :param planned: The newest planned batch, when it is not committed.
    :param committed_at: When the newest commit was written, by the store's clock.
    :param watermark: Event-time watermark of the committed batch: in append mode windows up to the
        next batch's watermark are written by the next batch.
    :param offsets: End offset of each source after the committed batch.
    :param durations: Seconds that recent batches took, from the store's times; the newest last.
    :param intervals: Seconds between recent commits, by the store's clock; the newest last.
    :param unknown: The unreadable part of it, as a sentence.
    :param query_id: Spark's id of the query, from the checkpoint's ``metadata``.
    """

    name: str
    committed: int | None = None
    planned: int | None = None
    committed_at: datetime | None = None
    watermark: datetime | None = None
    offsets: tuple[str, ...] = ()
    durations: tuple[float, ...] = ()
    intervals: tuple[float, ...] = ()
    unknown: str | None = None
    query_id: str | None = None


def batch_of(file_name: str) -> int | None:
    """Return 17 for ``17`` and ``None`` for any name other than a batch's log file."""
    # fullmatch of ASCII digits only: int() would take a digit of any script.
    return int(file_name) if _BATCH.fullmatch(file_name) else None


def parse_offsets(data: bytes) -> OffsetEntry:
    """
    Parse ``offsets/N``.

    :raises RecordError: too large, of an unknown version, or not an offset log.
    """
    plan = parse_offset_log(data)
    return OffsetEntry(
        planned_at=_moment(plan.batch_ms, "batchTimestampMs"),
        watermark=_moment(plan.watermark_ms, "batchWatermarkMs"),
        offsets=tuple(offset for _, offset in plan.offsets),
    )


def parse_commit(data: bytes) -> CommitEntry:
    """
    Parse ``commits/N``.

    :raises RecordError: too large, of an unknown version, or not a commit log.
    """
    commit = parse_commit_log(data)
    return CommitEntry(watermark=_moment(commit.watermark_ms, "nextBatchWatermarkMs"))


def parse_query_id(data: bytes) -> str | None:
    """
    Return the query's id from a checkpoint's ``metadata``.

    :return: ``None`` without an id that Spark accepts. Java's ``UUID.fromString``, which Spark
        reads it with, accepts shorter parts than a UUID has, e.g. ``1-1-1-1-1``.
    """
    try:
        # As text: Spark's reader does not pass over a byte order mark either.
        found = json_object(data.decode(errors="replace").strip(), "metadata").get("id")
    except RecordError:
        return None
    return found if isinstance(found, str) and _is_id(found) else None


def _is_id(text: str) -> bool:
    if len(text) > _LONGEST_ID or not _ID.fullmatch(text):
        return False
    return all(int(part, 16) <= _LARGEST_PART for part in text.split("-"))


def durations(offsets: Iterable[LogFile], commits: Iterable[LogFile]) -> tuple[float, ...]:
    """
    Return how long recent batches took: from plan to commit, both by the store's clock.

    A store that knows times to the second only makes each of them up to a second wrong.
    """
    planned = {file.batch: file.modified for file in offsets}
    taken = []
    for file in _newest(commits):
        begun = planned.get(file.batch)
        if begun is not None and file.modified is not None:
            # Files that were copied have the times of the copy, in any order.
            taken.append(max(0.0, (file.modified - begun).total_seconds()))
    return tuple(taken)


def intervals(commits: Iterable[LogFile]) -> tuple[float, ...]:
    """Return the time between recent commits, by the store's clock."""
    times = [file.modified for file in _newest(commits) if file.modified is not None]
    return tuple(max(0.0, (later - earlier).total_seconds()) for earlier, later in pairwise(times))


def _newest(files: Iterable[LogFile]) -> list[LogFile]:
    return sorted(files, key=lambda file: file.batch)[-RECENT:]


def _moment(milliseconds: int | None, field: str) -> datetime | None:
    # Spark writes 0 for "no watermark yet".
    if not milliseconds:
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError as err:
        raise RecordError(f"{field} is too large for a time.") from err
