"""
The summary of an epoch's history: one bucket of some minutes for each query.

A chart of a day would need to read some three hundred chunks of single batches. This file of buckets
is read instead: it is written whenever a chunk is full, and says up to which chunk it goes, so that
a reader takes only the chunks after that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from airflow_streaming.model.history import Bucket, fold
from airflow_streaming.model.names import numbered
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.storage import Store

BUCKET_SECONDS: Final = 290.0
"""A bucket shorter than that is joined with the next; a usual chunk of five minutes is just longer."""
FILE_SECONDS: Final = 6 * 3600.0
FILE_BYTES: Final = 128 * 1024
KEEP_FILES: Final = 36
"""Nine days of six hours; at most 4.5 MiB where there are many queries."""
MAX_LINE: Final = 16 * 1024
"""Bytes of a line. A bucket with more has observed numbers without end, and loses those."""


class Summary:
    """
    Writes the summary of one epoch.

    :param folder: The epoch's summary folder.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder
        self._number = 1
        self._kept: list[list[Bucket]] = []
        """What the file holds, by stretches of time."""

    def write(self, rows: Sequence[BatchProgress], *, chunk: int) -> None:
        """
        Add the batches of a chunk; it may be called again for one that could not be written.

        :raises HomeUnavailable: nothing was added.
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
    told: dict[str, Any] = {**bucket.to_dict(), "chunk": chunk}
    line = f"{json.dumps(told)}\n".encode()
    if len(line) <= MAX_LINE:
        return line
    figures = {k: v for k, v in told["figures"].items() if not k.startswith("observed.")}
    return f"{json.dumps({**told, 'figures': figures})}\n".encode()
