"""
The batches of one query on one time line, and sums over a moving window.

Progress reports carry the driver's wall clock, which may be adjusted. On this line a batch never
begins before the previous one has ended: a clock that was set back is followed from there. A clock
that was set forward looks like a pause; the driver's own monotonic count of the time since its last
commit reveals it while it lasts.

Between two batches the last figures hold. They lapse when no batch has begun by the time the next
one was due, plus a little grace: the query had no work.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from airflow_streaming.model.metrics import Parts
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.status import QueryStatus, Status

MAX_SAMPLES: Final = 2_000
"""More than these are paired, so that a window over a day of short batches stays small: its sums
are right, and a batch leaves it together with its neighbor."""
_REBUILD_EVERY: Final = 64
"""
Removals, or the number of remaining entries if larger, after which memory is freed and the sums are
recomputed, because subtraction leaves rounding errors.
"""

LAPSE_GRACE: Final = 30.0
"""Seconds past the time a batch was due. A pause of the driver was seen to last 20 s."""
CLOCK_SLACK: Final = 1.0
"""Seconds two batches may overlap: start and duration are rounded separately."""
MOVED_CLOCK: Final = 60.0
"""Seconds by which wall clock and monotonic count must differ to call the clock moved."""
_LONGEST_BATCH: Final = 10 * 365 * 86_400.0


class Window:
    """Samples of a moving window, the oldest first, and the sums of their parts."""

    __slots__ = ("_head", "samples", "sums")

    def __init__(self) -> None:
        self.samples: list[tuple[float, Parts]] = []
        self.sums: Parts = ()
        self._head = 0

    @property
    def oldest(self) -> int:
        """Return the index of the oldest sample in the window; there may be none."""
        return self._head

    def add(self, at: float, parts: Parts) -> None:
        """Add a sample, which is not older than any other."""
        self.samples.append((at, parts))
        self.sums = _plus(self.sums, parts) if self.sums else parts
        if len(self.samples) - self._head > MAX_SAMPLES:
            self._thin()

    def drop(self, until: float) -> None:
        """Remove the samples up to and including a time."""
        samples = self.samples
        while self._head < len(samples) and samples[self._head][0] <= until:
            self.sums = _minus(self.sums, samples[self._head][1])
            self._head += 1
        left = len(samples) - self._head
        if self._head and (not left or self._head >= max(_REBUILD_EVERY, left)):
            self._rebuild()

    def _rebuild(self) -> None:
        del self.samples[: self._head]
        self._head = 0
        self.sums = tuple(sum(column) for column in zip(*_parts(self.samples), strict=True))

    def _thin(self) -> None:
        self._rebuild()
        pairs = zip(self.samples[::2], self.samples[1::2], strict=False)
        odd = self.samples[-1:] if len(self.samples) % 2 else []
        self.samples = [(late, _plus(one, two)) for (_, one), (late, two) in pairs] + odd


def _parts(samples: list[tuple[float, Parts]]) -> list[Parts]:
    return [parts for _, parts in samples]


def _plus(one: Parts, two: Parts) -> Parts:
    return tuple([a + b for a, b in zip(one, two, strict=True)])


def _minus(one: Parts, two: Parts) -> Parts:
    return tuple([a - b for a, b in zip(one, two, strict=True)])


class Lapse(NamedTuple):
    """From when on the last figures no longer stood, and until when no batch was in work."""

    at: float
    until: float


class Span(NamedTuple):
    """
    A batch on the line, in seconds.

    :param gap: From the start of the batch before, if that is known.
    :param lapse: The pause before it, if the figures lapsed in it.
    """

    start: float
    end: float
    gap: float | None
    lapse: Lapse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """
    The time line's present for a query, and its activity.

    :param now: The driver's beat on the line.
    :param age: Seconds the query has been running, as far as known.
    :param known_until: The end of its known input: the start of the running batch, or the last
        batch learned if newer.
    :param lapse: The current pause, or the one before the running batch.
    :param is_idle: It neither works nor has data to work on.
    :param heals: No sign that it had work in the pause.
    """

    now: float
    age: float
    known_until: float
    lapse: Lapse | None
    is_idle: bool
    heals: bool


class Timeline:
    """Places the batches of a query on its line, in their order."""

    __slots__ = ("_last_id", "_offset", "end", "first", "interval", "start")

    def __init__(self) -> None:
        self.first: float | None = None
        self.start = self.end = 0.0
        self.interval = 0.0
        """Seconds from the start of a batch to the start of the next that is due; 0: at once."""
        self._last_id: int | None = None
        self._offset = 0.0

    def place(self, row: BatchProgress) -> Span | None:
        """Return where a batch belongs; ``None`` if it is known already or has no time."""
        if self._last_id is not None and row.batch_id <= self._last_id:
            return None
        begun = _seconds(row.at)
        if begun is None:
            return None
        start = begun + self._offset
        if self.first is None:
            self.first, self.end = start, start
        if start < self.end - CLOCK_SLACK:
            self._offset += self.end - start
            start = self.end
        span = Span(
            start=start,
            end=max(self.end, start + _duration(row)),
            gap=start - self.start if self._last_id == row.batch_id - 1 else None,
            lapse=self._lapse(start),
        )
        self.start, self.end, self._last_id = span.start, span.end, row.batch_id
        return span

    def moment(self, query: QueryStatus, status: Status) -> Moment:
        now = status.at.timestamp() + self._offset - _moved(query, status)
        if self.first is not None:
            now = max(now, self.end)
        begun = _in_work_since(query, now)
        quiet_until = now if begun is None else max(begun, self.end)
        is_late = self._is_late(query)
        is_idle = begun is None and not query.data_available
        return Moment(
            now=now,
            age=self._age(query, status, now),
            known_until=min(self.end, now) if is_late else quiet_until,
            lapse=None if is_late else self._lapse(quiet_until),
            is_idle=is_idle,
            heals=is_idle or begun is not None,
        )

    def clock(self, moment: float) -> datetime | None:
        """Return a time of the line as the driver's clock tells it today."""
        try:
            return datetime.fromtimestamp(moment - self._offset, UTC)
        except (ValueError, OverflowError, OSError):
            return None

    def _lapse(self, quiet_until: float) -> Lapse | None:
        if self._last_id is None:
            return None
        at = max(self.end, self.start + self.interval) + LAPSE_GRACE
        return Lapse(at, quiet_until) if quiet_until > at else None

    def _is_late(self, query: QueryStatus) -> bool:
        # The history is written some seconds after the status with its latest batch.
        latest = query.progress
        return latest is not None and (self._last_id is None or latest.batch_id > self._last_id)

    def _age(self, query: QueryStatus, status: Status, now: float) -> float:
        if self.first is not None:
            return now - self.first
        if query.committed_ago_s is not None:
            return query.committed_ago_s
        return (status.at - status.started_at).total_seconds()


def _in_work_since(query: QueryStatus, now: float) -> float | None:
    # A look for new data counts as active too; only with a batch is it work.
    if not query.processing or (query.batch_for_s is None and not query.data_available):
        return None
    return -float("inf") if query.batch_for_s is None else now - query.batch_for_s


def _moved(query: QueryStatus, status: Status) -> float:
    """Return by how much the wall clock went ahead of the monotonic one since the last commit."""
    latest, ago = query.progress, query.committed_ago_s
    begun = None if latest is None else _seconds(latest.at)
    if latest is None or begun is None or ago is None:
        return 0.0
    moved = status.at.timestamp() - (begun + _duration(latest)) - ago
    return moved if abs(moved) > MOVED_CLOCK else 0.0


def _duration(row: BatchProgress) -> float:
    # Spark takes it from the wall clock, so that a moved one can make it negative.
    return min(max(0.0, row.duration_ms / 1000), _LONGEST_BATCH)


def _seconds(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
