"""
Watermark → windows to announce: which intervals of event time are complete, and not announced yet.

Windows have equal lengths, counted from 1970 in UTC. A window is complete when the committed output
reaches its end. The state of a series only moves forward: a restored watermark is behind it, and
makes nothing due. An announced window is due again, with the next revision, when a user requests it
or when its content has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_streaming.model.products.windows import (
    AnnouncedWindow,
    SeriesState,
    WindowRequest,
    window_key,
)
from airflow_streaming.supervision.readiness.conditions import (
    asked,
    lacks_watermark,
    missing_watermark,
    no_query,
    with_watermark,
)
from airflow_streaming.supervision.readiness.snapshot import StreamSnapshot

MOST_AT_ONCE: Final = 100
"""Windows of one claim, except for corrections: Airflow writes their events in one transaction."""
MOST_REVISIONS: Final = 2_000
"""Corrected windows whose revision is remembered, the newest ones."""
MOST_AHEAD: Final = timedelta(days=366)
"""A later watermark has its cause in a wrong row; all windows would be announced up to that year."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """
    How far the committed output of a stream is complete.

    :param until: Every row before this event time is in it; ``None`` while that is unknown.
    :param never: No query that counts has a watermark.
    """

    until: datetime | None = None
    reason: str = ""
    never: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTerms:
    """
    How the windows of a series are cut.

    :param interval: Length of a window.
    :param since: Event time with which the series begins; default: the window in which the watermark
        is at the first look at the series.
    :param roll_up: A correction of a window of a complete span, such as a day, announces all windows of
        this span, because Airflow's roll-up waits for all of them once more.
    :param recheck: How far back contents are compared.
    """

    interval: timedelta
    since: datetime | None = None
    roll_up: timedelta | None = None
    recheck: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueWindows:
    """The windows to announce now, and the state of the series afterwards."""

    windows: tuple[AnnouncedWindow, ...]
    state: SeriesState


def committed_until(
    snapshot: StreamSnapshot, query: str | None = None, *, now: datetime
) -> Committed:
    """Return how far the committed output of a query is complete; default: of all queries."""
    latest = now + MOST_AHEAD
    queries = asked(snapshot, query)
    if not queries:
        return Committed(reason=no_query(snapshot, query))
    if why := lacks_watermark(snapshot.who, queries):
        return Committed(reason=why, never=True)
    marks: list[datetime] = []
    for one in with_watermark(queries):
        if one.watermark is None:
            return Committed(reason=missing_watermark(one))
        if one.batch_id is None:
            return Committed(reason=f"Query {one.name!r} has not committed a batch.")
        if one.watermark > latest:
            return Committed(reason=_too_late(one.name, one.watermark))
        marks.append(one.watermark)
    return Committed(until=min(marks))


def _too_late(query: str, watermark: datetime) -> str:
    return (
        f"Query {query!r} has the watermark {watermark}, more than a year ahead of the clock, so no window "
        "is announced. Leave rows with such times out before withWatermark()."
    )


def begun(terms: SeriesTerms, until: datetime) -> SeriesState:
    """Return the state of a series that has announced nothing."""
    start = floor(terms.since or until, terms.interval)
    return SeriesState(since=start, until=start)


def next_end(state: SeriesState, terms: SeriesTerms) -> datetime:
    """Return the end of the first window that is not announced."""
    return state.until + terms.interval


def closed_windows(
    state: SeriesState,
    until: datetime,
    terms: SeriesTerms,
    *,
    requests: Sequence[WindowRequest] = (),
    contents: Mapping[str, str] = {},
    most: int = MOST_AT_ONCE,
) -> DueWindows:
    """
    Return the windows that are due, in order of time, and the state when they are announced.

    :param until: The committed output is complete up to here.
    :param requests: The requests after ``state.requests``, oldest first.
    :param contents: The present contents of windows of ``contents_to_read``, by key.
    :param most: Windows at once, except for corrections.
    """
    again, state = _requested(state, until, terms, requests, most)
    again |= _corrected(state, terms, contents)
    new = [*_windows(state.until, until, terms.interval, most - min(most, len(again)))]
    again -= set(new)
    revisions = dict(state.revisions)
    for start in sorted(again):
        known = 1 if state.since <= start < state.until else 0
        key = window_key(start)
        revisions[key] = revisions.get(key, known) + 1
    newest = new[-1] + terms.interval if new else state.until
    due = [
        AnnouncedWindow(start=start, revision=revisions.get(window_key(start), 1))
        for start in sorted({*again, *new})
    ]
    return DueWindows(
        windows=tuple(due),
        state=replace(
            state,
            until=newest,
            revisions=_newest(revisions, MOST_REVISIONS),
            contents=_kept({**state.contents, **contents}, newest, terms),
        ),
    )


def contents_to_read(
    state: SeriesState, until: datetime, terms: SeriesTerms, *, most: int = MOST_AT_ONCE
) -> list[datetime]:
    """Return the windows whose content matters now: the complete new ones, and those compared again."""
    edge = window_key(state.until - terms.recheck)
    old = [_start_of(key) for key in state.contents if key >= edge]
    return [*sorted(old), *_windows(state.until, until, terms.interval, most)]


def floor(moment: datetime, interval: timedelta) -> datetime:
    """Return the begin of the window that holds a moment."""
    return moment - (moment - _EPOCH) % interval


def ceiling(moment: datetime, interval: timedelta) -> datetime:
    """Return the first begin of a window that is not before a moment."""
    return moment + (_EPOCH - moment) % interval


def _windows(begin: datetime, end: datetime, interval: timedelta, most: int) -> Iterator[datetime]:
    for number in range(min(most, max(0, (end - begin) // interval))):
        yield begin + number * interval


def _requested(
    state: SeriesState,
    until: datetime,
    terms: SeriesTerms,
    requests: Sequence[WindowRequest],
    most: int,
) -> tuple[set[datetime], SeriesState]:
    """Return the complete windows of the requests, and the state when they are announced."""
    found: set[datetime] = set()
    for request in requests:
        begin, end = _range_of(request, state, terms)
        begin = max(begin, state.requested_until or begin)
        # The watermark announces new windows only. A range before a restored watermark waits.
        complete = min(end, floor(until, terms.interval))
        new = [*_windows(begin, complete, terms.interval, most - len(found))]
        found |= set(new)
        reached = new[-1] + terms.interval if new else begin
        if reached < end:
            return found, replace(state, requested_until=reached)
        state = replace(state, requests=request.number, requested_until=None)
    return found, state


def _range_of(
    request: WindowRequest, state: SeriesState, terms: SeriesTerms
) -> tuple[datetime, datetime]:
    span = terms.roll_up or terms.interval
    # Rounding may leave the calendar, so the range is cut before it.
    begin = floor(max(request.start, _EPOCH), span)
    return begin, min(ceiling(min(request.end, state.until), span), state.until)


def _corrected(
    state: SeriesState, terms: SeriesTerms, contents: Mapping[str, str]
) -> set[datetime]:
    """Return the announced windows with another content, and the windows of their complete spans."""
    found: set[datetime] = set()
    for key, content in contents.items():
        if key in state.contents and state.contents[key] != content:
            found |= set(_with_span(_start_of(key), state, terms))
    return found


def _with_span(start: datetime, state: SeriesState, terms: SeriesTerms) -> Iterable[datetime]:
    if terms.roll_up is None:
        return (start,)
    begin = floor(start, terms.roll_up)
    end = begin + terms.roll_up
    if begin < state.since or end > state.until:
        # No roll-up has run: it takes this event with the others.
        return (start,)
    return _windows(begin, end, terms.interval, (end - begin) // terms.interval)


def _start_of(key: str) -> datetime:
    return datetime.fromisoformat(key).replace(tzinfo=UTC)


def _newest(revisions: Mapping[str, int], most: int) -> dict[str, int]:
    return dict(sorted(revisions.items())[-most:])


def _kept(contents: Mapping[str, str], until: datetime, terms: SeriesTerms) -> dict[str, str]:
    first, last = window_key(until - terms.recheck), window_key(until)
    return {key: text for key, text in sorted(contents.items()) if first <= key < last}
