"""
The figures of a stream over a range of time, read from its home in few and bounded steps.

A short range is read from the history of single batches, a longer one from the summaries that
drivers write beside it, plus newer batches. Files that cannot change any more are cached, so the
next look reads only the newest file.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.byte_cache import ByteCache
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.history import Bucket, fold
from airflow_streaming.model.names import Layout, number_of, numbered
from airflow_streaming.model.wire import parse_json

SHORT: Final = 90 * 60.0
"""Seconds of a range that is read batch by batch: eighteen chunks of five minutes."""
MOST_FILES: Final = 60
"""Files that one look reads of one epoch, the newest; of a driver without summaries these are five
hours."""
MOST_EPOCHS: Final = 12
"""Epochs that one look reads, the newest."""
_MAX_LINE: Final = 64 * 1024
_KEPT_BYTES: Final = 24 * 1024 * 1024


class Part(NamedTuple):
    """The content of one file: its buckets, and the last chunk that it covers."""

    buckets: tuple[Bucket, ...]
    chunk: int
    size: int


class PartCache(ByteCache[Part]):
    """
    Caches parsed files that cannot change, the most recently used ones.

    :param most: Bytes of the files; the parsed figures take about three times as much memory.
    """

    def __init__(self, most: int = _KEPT_BYTES) -> None:
        super().__init__(most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """
    The rows read for a range.

    :param buckets: In no order; some may be outside the range.
    :param is_cut: The home has more of it than one look reads.
    """

    buckets: tuple[Bucket, ...]
    is_cut: bool = False


class HistoryReader:
    """
    Reads the figures of one lane of a stream.

    :param cache: Cached files, shared by all streams of a process.
    """

    def __init__(self, home: StreamHome, cache: PartCache) -> None:
        self._home, self._cache = home, cache
        self._layout = Layout(home.name)

    def read(self, begin: float, end: float) -> Found:
        """Return the figures of a range in Unix time."""
        buckets: list[Bucket] = []
        is_cut = False
        numbers = self._home.epoch_numbers()
        for count, number in enumerate(reversed(numbers), start=1):
            if count > MOST_EPOCHS:
                is_cut = True
                break
            found = self._epoch(number, begin, end, is_newest=count == 1)
            buckets += found.buckets
            is_cut = is_cut or found.is_cut
            if found.buckets and min(bucket.begin for bucket in found.buckets) <= begin:
                break
            if self._home.epoch(number).created_at.timestamp() <= begin:
                break
        return Found(buckets=tuple(buckets), is_cut=is_cut)

    def recent(self, now: float, seconds: float = 3 * 3600.0) -> tuple[Bucket, ...]:
        """Return the figures of the last hours."""
        found = self.read(now - seconds, now).buckets
        return tuple(bucket for bucket in found if now - seconds <= bucket.end <= now)

    def _epoch(self, epoch: int, begin: float, end: float, *, is_newest: bool) -> Found:
        parts: list[Part] = []
        if end - begin > SHORT:
            parts = list(self._back(self._layout.summary(epoch), begin, is_newest=is_newest))
        after = max((part.chunk for part in parts), default=0)
        chunks = self._back(
            self._layout.progress(epoch), begin, is_newest=is_newest, after=after, are_batches=True
        )
        tail = list(chunks)
        buckets = tuple(bucket for part in [*parts, *tail] for bucket in part.buckets)
        is_cut = len(tail) >= MOST_FILES and min(b.begin for b in buckets) > begin
        return Found(buckets=buckets, is_cut=bool(buckets) and is_cut)

    def _back(
        self,
        folder: str,
        begin: float,
        *,
        is_newest: bool,
        after: int = 0,
        are_batches: bool = False,
    ) -> Iterator[Part]:
        """Yield the files of a folder, newest first, until one begins before the range."""
        files = [number for number in self._files(folder) if number > after][-MOST_FILES:]
        for number in reversed(files):
            is_final = not is_newest or number != files[-1]
            part = self._part(folder, number, is_final=is_final, are_batches=are_batches)
            yield part
            if part.buckets and min(bucket.begin for bucket in part.buckets) <= begin:
                return

    def _files(self, folder: str) -> list[int]:
        names = self._home.store.names(folder)
        found = (number_of(name[:-1]) for name in names if name.endswith(".jsonl"))
        return sorted(number for number in found if number is not None)

    def _part(self, folder: str, number: int, *, is_final: bool, are_batches: bool = False) -> Part:
        path = f"{folder}/{numbered(number)}.jsonl"
        key = f"{self._home.store.uri}\n{path}"
        known = self._cache.get(key) if is_final else None
        if known is not None:
            return known
        part = self._batches(folder, number) if are_batches else self._summary(path)
        if is_final:
            self._cache.put(key, part, part.size)
        return part

    def _batches(self, folder: str, number: int) -> Part:
        epoch = int(folder.split("/")[-2])
        rows, _ = self._home.progress_rows(epoch, number)
        buckets = tuple(bucket for row in rows for bucket in fold([row]))
        # A hostile row has a name of 16 KiB, or thousands of figures.
        size = sum(600 + len(one.query) + 100 * len(one.lasts) for one in buckets)
        return Part(buckets, number, size)

    def _summary(self, path: str) -> Part:
        try:
            data = self._home.store.read(path) or b""
        except RecordError:
            return Part((), 0, 0)
        told = [*_lines(data)]
        buckets = tuple(b for b in map(Bucket.from_dict, told) if b is not None)
        chunks = [chunk for one in told if isinstance(chunk := one.get("chunk"), int)]
        return Part(buckets, max(chunks, default=0), len(data))


def _lines(data: bytes) -> Iterator[dict[str, object]]:
    for line in data.splitlines():
        try:
            yield parse_json(line, limit=_MAX_LINE)
        except RecordError:
            continue


def sparkline(buckets: Sequence[Bucket], name: str, *, most: int = 36) -> list[float]:
    """Return the newest values of a figure, summed over the queries of each stretch of time."""
    stretches: OrderedDict[float, dict[str, float]] = OrderedDict()
    for bucket in sorted(buckets, key=lambda one: one.end):
        value = bucket.lasts.get(name)
        if value is not None:
            stretches.setdefault(bucket.end // 300, {})[bucket.query] = value
    sums = (sum(values.values()) for values in list(stretches.values())[-most:])
    return [float(f"{value:.4g}") for value in sums]
