"""
Sight → Announcement: what those who are scheduled by a stream are told, and how often.

An announcement is made of what stands now and what was told last, so whoever forgot everything but
the latter goes on as if nothing had happened, and one that comes twice has the same number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Self

from airflow_streaming.core.codec import encode
from airflow_streaming.core.gating import asked
from airflow_streaming.core.lanes import colour_of
from airflow_streaming.core.sight import QuerySight, Sight
from airflow_streaming.core.times import format_time
from airflow_streaming.core.verdict import WELL, VerdictState
from airflow_streaming.core.wire import decode

_PASSING: Final = frozenset({VerdictState.STARTING, VerdictState.STOPPING})
"""On the way from one state to another; what it comes to is told when it is there."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Topic(StrEnum):
    """What of a stream is announced."""

    WATERMARK = "watermark"
    """Its watermark has passed the end of another interval, so that this interval is complete."""
    BATCH = "batch"
    """It has committed; for streams without a watermark."""
    STATE = "state"
    """It has become well, or unwell in another way."""
    LIVE = "live"
    """Consumers are led to another output: another lane became live, or it writes elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """
    What was told last.

    :param sequence: Number of the last announcement; 0 before the first.
    :param state: State of the stream then; healthy stands for idle as well.
    :param complete_until: End of the last full interval of event time.
    :param batch_id: Newest committed batch then, of the query that is furthest behind.
    :param committed_at: When it was committed.
    :param lane: The lane that was live then.
    :param output: What it wrote.
    """

    sequence: int = 0
    state: str | None = None
    complete_until: datetime | None = None
    batch_id: int | None = None
    committed_at: datetime | None = None
    lane: str | None = None
    output: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        encoded: dict[str, Any] = encode(self)
        return encoded

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """
        Build it from its JSON form.

        :raises RecordError: not what was written.
        """
        return decode(cls, data, "what was told last")


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What is told, and what to remember of it."""

    payload: dict[str, Any]
    told: Told


def announce(
    sight: Sight, told: Told, *, topic: Topic, every: timedelta, query: str | None = None
) -> Announcement | None:
    """
    Return what is to be told now, if anything.

    :param told: What was told last.
    :param every: Length of the intervals of event time that watermarks complete, counted from
        1970 in UTC; or the least time between two commits that are told, by the stream's clock.
        States and lanes are told at once.
    :param query: The one that counts; default: all, so that the one furthest behind counts.
    """
    if topic is Topic.STATE:
        return _of_state(sight, told)
    if topic is Topic.LIVE:
        return _of_live(sight, told)
    queries = asked(sight, query)
    if not queries:
        return None
    of_progress = _of_watermark if topic is Topic.WATERMARK else _of_batch
    return of_progress(sight, told, queries, every)


def _of_state(sight: Sight, told: Told) -> Announcement | None:
    state = sight.verdict.state
    # What was only read, of a driver that may be hung since, is no news that it is well.
    if state in _PASSING or (state in WELL and not sight.fresh):
        return None
    now = VerdictState.HEALTHY if state in WELL else state
    if now == told.state:
        return None
    verdict = sight.verdict
    more = {"query": verdict.query or None, "previous": told.state, "rule": verdict.rule}
    return _announcement(sight, replace(told, state=now.value), Topic.STATE, more)


def _of_live(sight: Sight, told: Told) -> Announcement | None:
    if sight.lane is None or not sight.output:
        return None
    if (sight.lane, sight.output) == (told.lane, told.output):
        return None
    after = replace(told, lane=sight.lane, output=sight.output)
    more = {
        "lane": sight.lane,
        "colour": colour_of(sight.lane).value,
        "output": sight.output,
        "previous_lane": told.lane,
        "previous_output": told.output,
    }
    return _announcement(sight, after, Topic.LIVE, more)


def _of_watermark(
    sight: Sight, told: Told, queries: tuple[QuerySight, ...], every: timedelta
) -> Announcement | None:
    if any(one.watermark is None for one in queries):
        return None
    behind = min(queries, key=_watermark)
    until = _EPOCH + (_watermark(behind) - _EPOCH) // every * every
    if told.complete_until is not None and until <= told.complete_until:
        return None
    more = {
        "complete_from": encode(told.complete_until),
        "complete_until": format_time(until),
    }
    after = replace(told, complete_until=until, **_committed(behind))
    return _announcement(sight, after, Topic.WATERMARK, {**_progress(behind), **more})


def _of_batch(
    sight: Sight, told: Told, queries: tuple[QuerySight, ...], every: timedelta
) -> Announcement | None:
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
    return _announcement(sight, after, Topic.BATCH, _progress(behind))


def _announcement(sight: Sight, after: Told, topic: Topic, more: dict[str, Any]) -> Announcement:
    after = replace(after, sequence=after.sequence + 1)
    common = {
        "topic": topic.value,
        "epoch": sight.epoch,
        "state": sight.verdict.state.value,
        "reason": sight.verdict.reason,
        "sequence": after.sequence,
    }
    return Announcement(payload={**common, **more}, told=after)


def _progress(query: QuerySight) -> dict[str, Any]:
    return {
        "query": query.name,
        "batch_id": query.batch_id,
        "committed_at": encode(query.committed_at),
        "watermark": encode(query.watermark),
    }


def _committed(query: QuerySight) -> dict[str, Any]:
    return {"batch_id": query.batch_id, "committed_at": query.committed_at}


def _watermark(query: QuerySight) -> datetime:
    return query.watermark or _EPOCH
