"""
What an observer has of a stream that we did not launch: its checkpoint, and perhaps its endpoint.

Durations are seconds by the observer's own clock, because silence may only be timed by the one who
listens; the times of the store and of the driver are other clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_streaming.core.foreign.endpoint import Application, EndpointSight
from airflow_streaming.core.foreign.tail import Tail
from airflow_streaming.core.sight import QuerySight


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEvidence:
    """
    What an observer has of one query; durations in seconds, by the observer's own clock.

    :param quiet_for: Since the newest commit was first seen, or since it began to listen.
    :param planned_for: Since the planned batch was first seen; ``None`` when nothing is planned.
    :param fresh: A commit has been made while it listened.
    :param has_gauge: The endpoint shows gauges of the query; ``None`` when that is not known.
    :param gauge_lost_for: Since the gauges were first missed after they had been seen.
    """

    tail: Tail
    quiet_for: float
    planned_for: float | None = None
    fresh: bool = False
    has_gauge: bool | None = None
    gauge_lost_for: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEvidence:
    """
    What an observer has of a foreign stream.

    :param who: The checkpoint's location.
    :param endpoint: What its metrics endpoint has just told; ``None`` without one.
    :param application: The application the endpoint was first seen to be of.
    :param refused_for: Seconds since the endpoint began to refuse.
    :param changed_for: Seconds since the endpoint began to be of another application.
    """

    who: str
    now: datetime
    queries: tuple[QueryEvidence, ...] = ()
    endpoint: EndpointSight | None = None
    application: Application | None = None
    refused_for: float = 0.0
    changed_for: float = 0.0


def gauge_of(tail: Tail, gauges: frozenset[str], *, is_only: bool) -> str | None:
    """
    Return the name under which a query's gauges go; ``None`` when it cannot be told.

    A checkpoint knows the query's id but not its name, and the gauges go by the name if it has one.

    :param is_only: The checkpoint is the only one that is watched.
    """
    for name in (tail.query_id, tail.name):
        if name in gauges:
            return name
    return next(iter(gauges)) if is_only and len(gauges) == 1 else None


def to_query_sight(tail: Tail) -> QuerySight:
    """Return what a checkpoint tells of a query; of its backlog it tells nothing."""
    return QuerySight(
        name=tail.name,
        batch_id=tail.committed,
        committed_at=tail.committed_at,
        watermark=tail.watermark,
        planned_batch=tail.planned,
        offsets=tail.offsets,
    )
