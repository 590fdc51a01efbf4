"""
A freshness objective, and the timeline of the times at which a stream missed it.

The data of a stream is on time at a moment when its committed output is complete up to that moment
minus ``complete_within``. Between two commits the output stays as it is, so the data is on time until
``complete_within`` after its watermark. The timeline keeps the late spans exactly, and every figure is
computed from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.policies import Freshness
from airflow_streaming.model.wire import Record

MOST_SPANS: Final = 2_000
"""Late spans of a timeline. More are joined over the shortest gaps, which counts these gaps as late."""
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(5000, 1, 1, tzinfo=UTC)
"""A watermark can be later: some tables have 9999-12-31 for a time without an end."""
_HOUR: Final = timedelta(hours=1)
_MOST_OF_A_TOTAL_OUTAGE: Final = 0.95
"""A burn rate cannot exceed ``1 / (1 - objective)``; a bound above this part of it would never be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span of time."""

    begin: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.end < self.begin:
            raise SpecError(f"A span ends at {self.end}, before its begin {self.begin}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline(Record):
    """
    The times at which the data of a stream was late.

    :param complete_within: Of the objective that it was made for.
    :param since: Its begin: the first known watermark, or later.
    :param complete_until: The committed output at the end is complete up to here.
    :param late: Spans in which the data was late, in order.
    """

    KIND: ClassVar[str] = "freshness"

    number: int
    complete_within: timedelta
    query: str | None
    since: datetime
    until: datetime
    complete_until: datetime
    late: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        moments = (self.since, self.until, self.complete_until)
        if self.since > self.until or not all(EARLIEST <= one <= LATEST for one in moments):
            raise ValueError(
                f"a timeline cannot last from {self.since} to {self.until}, complete to {self.complete_until}"
            )
        if not timedelta(0) < self.complete_within <= LATEST - EARLIEST:
            raise ValueError(f"complete_within cannot be {self.complete_within}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A commit: from then on, the output is complete up to a time."""

    at: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnAlert:
    """
    A pair of windows over which the budget burns too fast, after Google's SRE workbook.

    :param rate: 1 spends exactly the budget in the period.
    """

    name: str
    rate: float
    long: timedelta
    short: timedelta


BURN_ALERTS: Final = (
    BurnAlert(name="fast", rate=14.4, long=_HOUR, short=timedelta(minutes=5)),
    BurnAlert(name="slow", rate=6.0, long=6 * _HOUR, short=timedelta(minutes=30)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnRate:
    """
    How fast the error budget burns over a pair of windows.

    :param bound: Where both rates reach it, the alert fires.
    """

    alert: BurnAlert
    long: float
    short: float
    bound: float

    @property
    def fires(self) -> bool:
        return min(self.long, self.short) >= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessFigures:
    """
    The figures of an objective at a time.

    :param share: Share of the counted time in which the data was on time; ``None`` while nothing counts.
    :param late: Time in which it was late.
    :param counted: Time that counts: of the period, known, and without excluded stops.
    :param budget_left: Share of the error budget that is left; negative when it is overspent.
    :param is_late: The data is late now.
    """

    at: datetime
    since: datetime
    share: float | None
    late: timedelta
    counted: timedelta
    budget_left: float
    is_late: bool
    burns: tuple[BurnRate, ...] = field(default=())


def begun(freshness: Freshness, first: Completed) -> Timeline:
    """Return the timeline that begins with a commit."""
    return Timeline(
        number=0,
        complete_within=freshness.complete_within,
        query=freshness.query,
        since=first.at,
        until=first.at,
        complete_until=first.until,
    )


def extended(timeline: Timeline, commits: Iterable[Completed], until: datetime) -> Timeline:
    """
    Return a timeline with the time up to ``until``.

    :param commits: In order; those before the end of the timeline do not count.
    """
    late, at, complete = [*timeline.late], timeline.until, timeline.complete_until
    for commit in commits:
        if timeline.until < commit.at <= until:
            _append_late(late, at, commit.at, complete + timeline.complete_within)
            at, complete = commit.at, commit.until
    _append_late(late, at, max(at, until), complete + timeline.complete_within)
    return Timeline(
        number=timeline.number,
        complete_within=timeline.complete_within,
        query=timeline.query,
        since=timeline.since,
        until=max(at, until),
        complete_until=complete,
        late=tuple(late),
    )


def shortened(timeline: Timeline, since: datetime, most: int = MOST_SPANS) -> Timeline:
    """Return a timeline without the time before ``since``, and with at most so many spans."""
    begin = max(timeline.since, since)
    late = [*_within(timeline.late, begin, timeline.until)]
    if len(late) > most:
        gaps = sorted(range(1, len(late)), key=lambda i: late[i].begin - late[i - 1].end)
        joined = {*gaps[: len(late) - most]}
        found: list[Span] = []
        for index, span in enumerate(late):
            if index in joined:
                found[-1] = Span(begin=found[-1].begin, end=span.end)
            else:
                found.append(span)
        late = found
    return Timeline(
        number=timeline.number,
        complete_within=timeline.complete_within,
        query=timeline.query,
        since=begin,
        until=timeline.until,
        complete_until=timeline.complete_until,
        late=tuple(late),
    )


def figures(
    freshness: Freshness, timeline: Timeline, stops: Sequence[Span] = ()
) -> FreshnessFigures:
    """
    Return the figures at the end of a timeline.

    :param stops: Planned stops; they are left out unless the objective counts them.
    """
    excluded = [] if freshness.count_planned_stops else joined_spans(stops)
    now = timeline.until
    begin = max(timeline.since, now - freshness.over)
    late, counted = _measured(timeline.late, excluded, begin, now)
    share = None if not counted else 1 - late / counted
    return FreshnessFigures(
        at=now,
        since=begin,
        share=share,
        late=late,
        counted=counted,
        budget_left=1 - late / freshness.budget,
        is_late=now > timeline.complete_until + timeline.complete_within,
        burns=tuple(_burn(freshness, timeline, excluded, alert) for alert in BURN_ALERTS),
    )


def joined_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, with those that touch joined."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda one: one.begin):
        if found and span.begin <= found[-1].end:
            found[-1] = Span(begin=found[-1].begin, end=max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def _burn(
    freshness: Freshness, timeline: Timeline, excluded: Sequence[Span], alert: BurnAlert
) -> BurnRate:
    allowed = 1 - freshness.objective

    def rate(window: timedelta) -> float:
        # A window longer than the timeline: the time before it counts as on time.
        now = timeline.until
        late, _ = _measured(timeline.late, excluded, now - window, now)
        left_out = _length(_within(excluded, now - window, now))
        return late / (window - left_out) / allowed if left_out < window else 0.0

    bound = min(alert.rate, _MOST_OF_A_TOTAL_OUTAGE / allowed)
    return BurnRate(alert=alert, long=rate(alert.long), short=rate(alert.short), bound=bound)


def _measured(
    late: Sequence[Span], excluded: Sequence[Span], begin: datetime, end: datetime
) -> tuple[timedelta, timedelta]:
    """Return the late and the counted time of a range, without the excluded time."""
    spans = [*_within(late, begin, end)]
    left_out = [*_within(excluded, begin, end)]
    return _length(spans) - _shared(spans, left_out), max(timedelta(0), end - begin) - _length(
        left_out
    )


def _within(spans: Iterable[Span], begin: datetime, end: datetime) -> Iterable[Span]:
    for span in spans:
        first, last = max(span.begin, begin), min(span.end, end)
        if first < last:
            yield Span(begin=first, end=last)


def _shared(some: Sequence[Span], others: Sequence[Span]) -> timedelta:
    """Return the time that two lists share; each is in order."""
    shared, one, other = timedelta(0), 0, 0
    while one < len(some) and other < len(others):
        left, right = some[one], others[other]
        shared += max(timedelta(0), min(left.end, right.end) - max(left.begin, right.begin))
        if left.end < right.end:
            one += 1
        else:
            other += 1
    return shared


def _length(spans: Iterable[Span]) -> timedelta:
    return sum((span.end - span.begin for span in spans), start=timedelta(0))


def _append_late(late: list[Span], begin: datetime, end: datetime, on_time_until: datetime) -> None:
    first = max(begin, on_time_until)
    if first >= end:
        return
    if late and late[-1].end == first:
        late[-1] = Span(begin=late[-1].begin, end=end)
    else:
        late.append(Span(begin=first, end=end))
