"""
The history of an epoch's figures: every batch in chunks, and buckets of minutes for charts of a day.

Stores know no append, so the chunk in progress is rewritten, at most every ten seconds; a finished
one is never touched again until it is the oldest and goes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from airflow_streaming.model.history import Bucket, fold
from airflow_streaming.model.names import numbered
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.storage import Store

CHUNK_ROWS: Final = 500
CHUNK_SECONDS: Final = 300.0
KEEP_CHUNKS: Final = 300
"""A day of five-minute chunks, and an hour more."""
MAX_LINE: Final = 16 * 1024
"""Bytes of a line that the history's readers take."""
_WRITE_EVERY: Final = 10.0
_MAX_WAITING: Final = 4 * CHUNK_ROWS

BUCKET_SECONDS: Final = 290.0
"""A bucket shorter than that is joined with the next; a usual chunk of five minutes is just longer."""
FILE_SECONDS: Final = 6 * 3600.0
FILE_BYTES: Final = 128 * 1024
KEEP_FILES: Final = 36
"""Nine days of six hours; at most 4.5 MiB where there are many queries."""


class History:
    """
    Writes the chunks of one epoch.

    :param folder: The epoch's progress folder.
    :param summary: The epoch's summary folder; none is written without it.
    """

    def __init__(self, store: Store, folder: str, summary: str = "") -> None:
        self._store, self._folder = store, folder
        self._summary = Summary(store, summary) if summary else None
        self._number = 1
        self._rows: list[BatchProgress] = []
        self._lines: list[bytes] = []
        """Of the first rows: a chunk is written some thirty times, and each row turned into JSON once."""
        self._begun = self._written_at = float("-inf")
        self._written_rows = 0

    def add(self, rows: Sequence[BatchProgress], *, now: float) -> None:
        """Take new rows; ``now`` is a monotonic time in seconds."""
        if rows and not self._rows:
            self._begun = now
        self._rows += rows
        # A home that is away for hours costs old rows, not the driver's memory.
        over = max(0, len(self._rows) - _MAX_WAITING)
        del self._rows[:over], self._lines[:over]

    def write(self, *, now: float, final: bool = False) -> None:
        """
        Write due rows and intervals.

        :raises HomeUnavailable: no data is lost; a later call writes the rows.
        """
        is_full = len(self._rows) >= CHUNK_ROWS or now - self._begun >= CHUNK_SECONDS
        is_due = is_full or final or now - self._written_at >= _WRITE_EVERY
        if not self._rows or not is_due:
            return
        if len(self._rows) != self._written_rows:
            self._lines += [line_of(row) for row in self._rows[len(self._lines) :]]
            self._store.replace(self._path(self._number), b"".join(self._lines))
            self._written_rows, self._written_at = len(self._rows), now
        if self._summary is not None and (is_full or final):
            self._summary.write(self._rows, chunk=self._number)
        if is_full:
            self._roll()

    def _roll(self) -> None:
        self._rows, self._lines, self._written_rows = [], [], 0
        self._number += 1
        if self._number > KEEP_CHUNKS:
            self._store.delete(self._path(self._number - KEEP_CHUNKS))

    def _path(self, number: int) -> str:
        return f"{self._folder}/{numbered(number)}.jsonl"


def line_of(row: BatchProgress) -> bytes:
    """
    Return a row as a line within every reader's length limit.

    End offsets are left out: charts do not need them and they can be longer than the rest. The
    status has the offsets of the latest batch. A line that is still too long loses its observed
    metrics and RocksDB's metrics, and then its sources from the last.
    """
    kept = replace(row, sources=tuple(replace(s, end_offset=None) for s in row.sources))
    line = _dumped(kept)
    if len(line) > MAX_LINE:
        kept = replace(kept, observed={}, state_metrics={}, phases_ms={})
        line = _dumped(kept)
    while len(line) > MAX_LINE and kept.sources:
        kept = replace(kept, sources=kept.sources[:-1])
        line = _dumped(kept)
    return line


def _dumped(row: BatchProgress) -> bytes:
    return f"{json.dumps(asdict(row))}\n".encode()


class Summary:
    """
    Writes the summary of one epoch: one bucket of some minutes for each query.

    A chart of a day would need to read some three hundred chunks of single batches. This file of
    buckets is read instead: it is written whenever a chunk is full, and says up to which chunk it
    goes, so that a reader takes only the chunks after that. A bucket with a line that is too long
    has observed numbers without end, and loses those.

    :param folder: The epoch's summary folder.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder
        self._number = 1
        self._kept: list[list[Bucket]] = []
        """The file's content, by intervals."""

    def write(self, rows: Sequence[BatchProgress], *, chunk: int) -> None:
        """
        Add the batches of a chunk; may be called again after a failed write.

        :raises HomeUnavailable: no row was added.
        """
        kept, fresh = list(self._kept), fold(rows)
        if not fresh:
            return
        if kept and _length(kept[-1]) < BUCKET_SECONDS:
            fresh = _joined(kept.pop(), fresh)
        kept.append(fresh)
        data = b"".join(_line(bucket, chunk) for stretch in kept for bucket in stretch)
        self._store.replace(f"{self._folder}/{numbered(self._number)}.jsonl", data)
        self._kept = kept
        if len(data) >= FILE_BYTES or _length([b for part in kept for b in part]) >= FILE_SECONDS:
            self._roll()

    def _roll(self) -> None:
        self._kept, self._number = [], self._number + 1
        if self._number > KEEP_FILES:
            self._store.delete(f"{self._folder}/{numbered(self._number - KEEP_FILES)}.jsonl")


def _length(buckets: Sequence[Bucket]) -> float:
    return max(bucket.end for bucket in buckets) - min(bucket.begin for bucket in buckets)


def _joined(before: Sequence[Bucket], fresh: Sequence[Bucket]) -> list[Bucket]:
    by_query = {bucket.query: bucket for bucket in before}
    for bucket in fresh:
        known = by_query.get(bucket.query)
        by_query[bucket.query] = bucket if known is None else known.joined(bucket)
    return list(by_query.values())


def _line(bucket: Bucket, chunk: int) -> bytes:
    values: dict[str, Any] = {**bucket.to_dict(), "chunk": chunk}
    line = f"{json.dumps(values)}\n".encode()
    if len(line) <= MAX_LINE:
        return line
    figures = {k: v for k, v in values["figures"].items() if not k.startswith("observed.")}
    return f"{json.dumps({**values, 'figures': figures})}\n".encode()
