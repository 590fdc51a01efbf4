"""
Progress history in chunks: one line of JSON a batch, for charts.

Stores know no append, so the chunk in progress is rewritten, at most every ten seconds; a finished
one is never touched again until it is the oldest and goes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

from airflow_streaming.core.names import numbered
from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.files.store import Store

CHUNK_ROWS: Final = 500
CHUNK_SECONDS: Final = 300.0
KEEP_CHUNKS: Final = 300
"""A day of five-minute chunks, and an hour more."""

MAX_LINE: Final = 16 * 1024
"""Bytes of a line that the history's readers take."""

_WRITE_EVERY: Final = 10.0
_MAX_WAITING: Final = 4 * CHUNK_ROWS


class History:
    """
    Writes the chunks of one epoch.

    :param folder: The epoch's progress folder.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder
        self._number = 1
        self._rows: list[BatchProgress] = []
        self._begun = self._written_at = float("-inf")
        self._written_rows = 0

    def add(self, rows: Sequence[BatchProgress], *, now: float) -> None:
        """Take new rows; ``now`` is a monotonic time in seconds."""
        if rows and not self._rows:
            self._begun = now
        self._rows += rows
        # A home that is away for hours costs old rows, not the driver's memory.
        del self._rows[:-_MAX_WAITING]

    def write(self, *, now: float, final: bool = False) -> None:
        """
        Write what is due.

        :raises HomeUnavailable: nothing is lost; the rows are written by a later call.
        """
        is_full = len(self._rows) >= CHUNK_ROWS or now - self._begun >= CHUNK_SECONDS
        is_due = is_full or final or now - self._written_at >= _WRITE_EVERY
        if not self._rows or not is_due:
            return
        if len(self._rows) != self._written_rows:
            self._store.replace(self._path(self._number), _lines(self._rows))
            self._written_rows, self._written_at = len(self._rows), now
        if is_full:
            self._roll()

    def _roll(self) -> None:
        self._rows, self._written_rows = [], 0
        self._number += 1
        if self._number > KEEP_CHUNKS:
            self._store.delete(self._path(self._number - KEEP_CHUNKS))

    def _path(self, number: int) -> str:
        return f"{self._folder}/{numbered(number)}.jsonl"


def _lines(rows: Sequence[BatchProgress]) -> bytes:
    return b"".join(line_of(row) for row in rows)


def line_of(row: BatchProgress) -> bytes:
    """
    Return a row as a line that no reader refuses for its length.

    Without the end offsets, which charts do not need and which can be longer than all the rest;
    the status has those of the latest batch. A line that is still too long loses its observed
    numbers, and then its sources from the last.
    """
    kept = replace(row, sources=tuple(replace(s, end_offset=None) for s in row.sources))
    line = _dumped(kept)
    if len(line) > MAX_LINE and kept.observed:
        kept = replace(kept, observed={})
        line = _dumped(kept)
    while len(line) > MAX_LINE and kept.sources:
        kept = replace(kept, sources=kept.sources[:-1])
        line = _dumped(kept)
    return line


def _dumped(row: BatchProgress) -> bytes:
    return f"{json.dumps(asdict(row))}\n".encode()
