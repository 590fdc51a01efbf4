"""
Snapshot → asset event: which events a stream sends to the dags it schedules, and how often.

An event depends on the current snapshot and on the last event only. So a triggerer that kept
nothing but the last event continues correctly, and an event that is sent twice has the same number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from airflow_streaming.model.codec import encode, format_time
from airflow_streaming.model.names import color_of
from airflow_streaming.model.observation import WELL, VerdictState
from airflow_streaming.model.wire import JsonValue
from airflow_streaming.supervision.readiness.conditions import (
    asked,
    lacks_watermark,
    missing_watermark,
    no_query,
    with_watermark,
)
from airflow_streaming.supervision.readiness.snapshot import QuerySnapshot, StreamSnapshot
from airflow_streaming.supervision.readiness.subject import EventType

_PASSING: Final = frozenset({VerdictState.STARTING, VerdictState.STOPPING, VerdictState.PAUSED})
"""On the way from one state to another; the state it reaches is sent when it is reached."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSent(JsonValue):
    """
    The last event that was sent.

    :param sequence: Its number; 0 before the first.
    :param state: State of the stream then; healthy includes idle.
    :param complete_until: End of the last full interval of event time.
    :param batch_id: Newest committed batch then, of the query that is furthest behind.
    """

    WHAT: ClassVar[str] = "last asset event"

    sequence: int = 0
    state: str | None = None
    complete_until: datetime | None = None
    batch_id: int | None = None
    committed_at: datetime | None = None
    lane: str | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """An asset event, and what to remember of it."""

    payload: dict[str, Any]
    told: LastSent


def announce(
    snapshot: StreamSnapshot,
    told: LastSent,
    *,
    topic: EventType,
    every: timedelta,
    query: str | None = None,
) -> StreamEvent | None:
    """
    Return the event that is due, if any.

    :param told: The last event that was sent.
    :param every: Length of the intervals of event time that watermarks complete, counted from 1970
        in UTC; or the least time between two commits that are sent, by the stream's clock. States
        and lanes are sent at once.
    :param query: The relevant query; default: the one furthest behind.
    """
    if topic is EventType.STATE:
        return _of_state(snapshot, told)
    if topic is EventType.LIVE:
        return _of_live(snapshot, told)
    queries = asked(snapshot, query)
    if not queries:
        return None
    of_progress = _of_watermark if topic is EventType.WATERMARK else _of_batch
    return of_progress(snapshot, told, queries, every)


def why_silent(snapshot: StreamSnapshot, *, topic: EventType, query: str | None = None) -> str:
    """Return why no progress event is possible now; else empty."""
    if topic not in (EventType.WATERMARK, EventType.BATCH):
        return ""
    queries = asked(snapshot, query)
    if not queries:
        return no_query(snapshot, query)
    if topic is EventType.BATCH:
        return ""
    missing = (missing_watermark(one) for one in with_watermark(queries) if one.watermark is None)
    return lacks_watermark(snapshot.who, queries) or next(missing, "")


def _of_state(snapshot: StreamSnapshot, told: LastSent) -> StreamEvent | None:
    state = snapshot.verdict.state
    # A status that was only read, of a driver that may hang since, is not news.
    if state in _PASSING or (state in WELL and not snapshot.fresh):
        return None
    now = VerdictState.HEALTHY if state in WELL else state
    if now == told.state:
        return None
    verdict = snapshot.verdict
    more = {"query": verdict.query or None, "previous": told.state, "rule": verdict.rule}
    return _announcement(snapshot, replace(told, state=now.value), EventType.STATE, more)


def _of_live(snapshot: StreamSnapshot, told: LastSent) -> StreamEvent | None:
    if snapshot.lane is None or not snapshot.output:
        return None
    if (snapshot.lane, snapshot.output) == (told.lane, told.output):
        return None
    after = replace(told, lane=snapshot.lane, output=snapshot.output)
    more = {
        "lane": snapshot.lane,
        "color": color_of(snapshot.lane).value,
        "output": snapshot.output,
        "previous_lane": told.lane,
        "previous_output": told.output,
    }
    return _announcement(snapshot, after, EventType.LIVE, more)


def _of_watermark(
    snapshot: StreamSnapshot, told: LastSent, queries: tuple[QuerySnapshot, ...], every: timedelta
) -> StreamEvent | None:
    counted = with_watermark(queries)
    if not counted or any(one.watermark is None for one in counted):
        return None
    behind = min(counted, key=_watermark)
    until = _EPOCH + (_watermark(behind) - _EPOCH) // every * every
    if told.complete_until is not None and until <= told.complete_until:
        return None
    more = {
        "complete_from": encode(told.complete_until),
        "complete_until": format_time(until),
    }
    after = replace(told, complete_until=until, **_committed(behind))
    return _announcement(snapshot, after, EventType.WATERMARK, {**_progress(behind), **more})


def _of_batch(
    snapshot: StreamSnapshot, told: LastSent, queries: tuple[QuerySnapshot, ...], every: timedelta
) -> StreamEvent | None:
    if any(one.batch_id is None for one in queries):
        return None
    behind = min(queries, key=lambda one: one.committed_at or _EPOCH)
    if (behind.batch_id, behind.committed_at) == (told.batch_id, told.committed_at):
        return None
    if behind.committed_at is not None and told.committed_at is not None:
        since = behind.committed_at - told.committed_at
        # A clock that was set back must not silence the stream until it has caught up.
        if timedelta(0) <= since < every:
            return None
    after = replace(told, **_committed(behind))
    return _announcement(snapshot, after, EventType.BATCH, _progress(behind))


def _announcement(
    snapshot: StreamSnapshot, after: LastSent, topic: EventType, more: dict[str, Any]
) -> StreamEvent:
    after = replace(after, sequence=after.sequence + 1)
    common = {
        "topic": topic.value,
        "epoch": snapshot.epoch,
        "state": snapshot.verdict.state.value,
        "reason": snapshot.verdict.reason,
        "sequence": after.sequence,
    }
    return StreamEvent(payload={**common, **more}, told=after)


def _progress(query: QuerySnapshot) -> dict[str, Any]:
    return {
        "query": query.name,
        "batch_id": query.batch_id,
        "committed_at": encode(query.committed_at),
        "watermark": encode(query.watermark),
    }


def _committed(query: QuerySnapshot) -> dict[str, Any]:
    return {"batch_id": query.batch_id, "committed_at": query.committed_at}


def _watermark(query: QuerySnapshot) -> datetime:
    return query.watermark or _EPOCH
