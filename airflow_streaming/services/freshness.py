"""
The freshness of a stream: its late times, from the recorded history of its batches.

A task records the timeline now and then, so that a reader only needs the batches since. A period that
no reader covers is not guessed: a timeline begins at the first known commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from airflow_streaming.home.consumers import live
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.arguments.policies import Freshness
from airflow_streaming.model.history import ended_at
from airflow_streaming.model.products.freshness import (
    EARLIEST,
    LATEST,
    Completed,
    FreshnessFigures,
    Span,
    Timeline,
    begun,
    extended,
    figures,
    shortened,
)
from airflow_streaming.model.progress import BatchProgress, watermark_at
from airflow_streaming.model.records.control import DesiredState

RECORD_EVERY: Final = timedelta(hours=1)
MOST_CHUNKS: Final = 600
"""Files of the history that one look reads, of five minutes each: two days."""
_LANDED: Final = timedelta(seconds=30)
"""A driver writes its history every ten seconds; a timeline is recorded up to this long ago."""
_BEGINNING: Final = EARLIEST


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFreshness:
    """
    The freshness of a stream now.

    :param timeline: The timeline up to now.
    :param stops: The planned stops in it.
    """

    freshness: Freshness
    recorded: Timeline | None
    timeline: Timeline
    stops: tuple[Span, ...]

    @property
    def figures(self) -> FreshnessFigures:
        return figures(self.freshness, self.timeline, self.stops)


def read_freshness(
    home: Home, stream: str, freshness: Freshness, now: datetime
) -> StreamFreshness | None:
    """Return the freshness of a stream; ``None`` before its first watermark."""
    base = home.stream(stream)
    recorded = base.timeline()
    if recorded is not None and not _is_of(recorded, freshness):
        recorded = None
    commits = commits_since(
        *(home, stream, freshness.query),
        since=now - freshness.over if recorded is None else recorded.until,
    )
    start = recorded
    if start is None:
        if not commits:
            return None
        start = begun(freshness, commits[0])
    timeline = extended(start, commits, now)
    return StreamFreshness(
        freshness=freshness,
        recorded=recorded,
        timeline=shortened(timeline, now - freshness.over),
        stops=tuple(planned_stops(home.stream(live(home, stream).lane), now)),
    )


def recorded_freshness(stream: StreamHome, freshness: Freshness) -> StreamFreshness | None:
    """Return the freshness at the end of the recorded timeline; no history of batches is read."""
    recorded = stream.timeline()
    if recorded is None or not _is_of(recorded, freshness):
        return None
    stops = tuple(planned_stops(stream, recorded.until))
    return StreamFreshness(freshness=freshness, recorded=recorded, timeline=recorded, stops=stops)


def record_freshness(home: Home, stream: str, found: StreamFreshness) -> bool:
    """Record the timeline of a look, if the recorded one is old; tell whether it was recorded."""
    timeline, recorded = found.timeline, found.recorded
    if recorded is not None and timeline.until - recorded.until < RECORD_EVERY:
        return False
    # The driver may still write batches of the last seconds.
    edge = timeline.until - _LANDED
    if edge <= timeline.since or (recorded is not None and edge <= recorded.until):
        return False
    fresh = read_until(home, stream, found, edge)
    newest = home.stream(stream).timeline()
    number = 0 if newest is None else newest.number
    return home.stream(stream).record_timeline(replace(fresh, number=number))


def read_until(home: Home, stream: str, found: StreamFreshness, until: datetime) -> Timeline:
    """Return the timeline of a look, up to an earlier time."""
    start, since = found.recorded, found.timeline.since
    if start is None:
        commits = commits_since(home, stream, found.freshness.query, since=since)
        return extended(begun(found.freshness, commits[0]), commits, until)
    commits = commits_since(home, stream, found.freshness.query, since=start.until)
    return shortened(extended(start, commits, until), since)


def commits_since(
    home: Home, stream: str, query: str | None, *, since: datetime
) -> list[Completed]:
    """
    Return the commits of the lanes that were live, in order, and the last one before ``since``.

    A commit of a query completes the stream up to the least watermark of all its queries.
    """
    found: list[Completed] = []
    for lane, begin, end in _live_periods(home, stream):
        if end is not None and end <= since:
            continue
        commits = [*_commits_of(home.stream(lane), query, max(since, begin))]
        before = [one for one in commits if one.at <= begin][-1:]
        # The lane's output is what consumers read from its first moment on.
        found += [Completed(at=begin, until=one.until) for one in before if begin > _BEGINNING]
        found += [one for one in commits if one.at > begin and (end is None or one.at <= end)]
    return found


def planned_stops(stream: StreamHome, now: datetime) -> Iterator[Span]:
    """Yield the times in which a stream was stopped, held or changed because a user asked for it."""
    wishes = stream.desired_states()
    for wish, following in pairwise([*wishes, None]):
        if wish is not None and wish.state is DesiredState.STOPPED:
            end = now if following is None else following.at
            end = end if wish.until is None else min(end, wish.until)
            if wish.at < end:
                yield Span(begin=wish.at, end=end)
    for change in stream.changes():
        ended = stream.change_end(change.number)
        end = now if ended is None else ended.at
        if change.at < end:
            yield Span(begin=change.at, end=end)
    for pause in stream.batch_pauses():
        closed = stream.batch_pause_end(pause.number)
        end = min(now, pause.until if closed is None else closed.at)
        if pause.at < end:
            yield Span(begin=pause.at, end=end)


def _is_of(timeline: Timeline, freshness: Freshness) -> bool:
    return (timeline.complete_within, timeline.query) == (
        freshness.complete_within,
        freshness.query,
    )


def _live_periods(home: Home, stream: str) -> Iterator[tuple[str, datetime, datetime | None]]:
    now = live(home, stream, history=True)
    for period in now.history:
        yield period.lane, period.since or _BEGINNING, period.until
    yield now.lane, now.since or _BEGINNING, None


def _commits_of(lane: StreamHome, query: str | None, since: datetime) -> Iterator[Completed]:
    """Yield the commits of a lane from the last one before ``since`` on."""
    known: dict[str, datetime] = {}
    last: Completed | None = None
    for rows in _epochs_since(lane, query, since):
        names = {row.query for _, row in rows if _mark(row) is not None}
        # A query of an earlier script does not hold up this one.
        known = {name: mark for name, mark in known.items() if name in names}
        for at, row in rows:
            mark = _mark(row)
            if mark is None:
                continue
            known[row.query] = mark
            if len(known) < len(names):
                continue
            commit = Completed(at=at, until=min(known.values()))
            if at <= since:
                last = commit
                continue
            if last is not None:
                yield last
                last = None
            yield commit
    if last is not None:
        yield last


def _epochs_since(
    lane: StreamHome, query: str | None, since: datetime
) -> list[list[tuple[datetime, BatchProgress]]]:
    """Return the rows with a watermark of each epoch, oldest first, from before ``since`` on."""
    found: list[list[tuple[datetime, BatchProgress]]] = []
    left = MOST_CHUNKS
    for epoch in reversed(lane.epoch_numbers()):
        rows: list[tuple[datetime, BatchProgress]] = []
        chunks = lane.progress_chunks(epoch)
        for chunk in reversed(chunks):
            left -= 1
            rows = [*_told(lane.progress_rows(epoch, chunk)[0], query), *rows]
            if left <= 0 or (rows and _has_all_before(rows, since)):
                break
        rows.sort(key=lambda one: one[0])
        if rows:
            found.append(rows)
            if rows[0][0] <= since:
                break
        if left <= 0:
            break
    return found[::-1]


def _has_all_before(rows: list[tuple[datetime, BatchProgress]], since: datetime) -> bool:
    firsts: Mapping[str, datetime] = {row.query: at for at, row in reversed(rows)}
    return all(at <= since for at in firsts.values())


def _told(rows: list[BatchProgress], query: str | None) -> Iterator[tuple[datetime, BatchProgress]]:
    for row in rows:
        at = ended_at(row)
        if at is not None and row.watermark and query in (None, row.query):
            yield datetime.fromtimestamp(at, UTC), row


def _mark(row: BatchProgress) -> datetime | None:
    mark = watermark_at(row.watermark)
    return None if mark is None else min(mark, LATEST)
