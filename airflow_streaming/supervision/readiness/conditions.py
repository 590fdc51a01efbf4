"""
Conditions of downstream DAGs on a stream's snapshot.

A condition is a value: it travels in the kwargs of a trigger and is evaluated at every look. It is
three-valued: met, not yet, or unknown, which also waits and names the missing fact. For a stream of
several queries every query must meet it, unless the condition names one.

A query is compared with the other stream's query of the same name; two single queries are compared
whatever their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.model.codec import format_time
from airflow_streaming.model.durations import duration_text, number_text
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.progress import is_at_least
from airflow_streaming.supervision.readiness.snapshot import QuerySnapshot, StreamSnapshot
from airflow_streaming.supervision.readiness.subject import (
    Condition,
    Readiness,
    ReadinessState,
)

_NO_SIGN: Final = "Waiting to see a sign of life."

_CURRENT: Final = frozenset({VerdictState.HEALTHY, VerdictState.IDLE, VerdictState.DEGRADED})
"""States with recent commits; in others the backlog may have grown since the last commit."""


def gate(snapshot: StreamSnapshot, condition: Condition) -> Readiness:
    """Say whether a stream meets a condition."""
    if condition.healthy_for is not None:
        health = _healthy(snapshot, condition, condition.healthy_for)
        if health is not None:
            return health
    if condition.backlog_below is not None and not _is_current(snapshot):
        return _not_met(
            snapshot, condition, f"How large the backlog is now is not known. {_why_old(snapshot)}"
        )
    queries = asked(snapshot, condition.query)
    if not queries:
        return _not_met(snapshot, condition, no_query(snapshot, condition.query))
    if condition.watermark is not None and (why := lacks_watermark(snapshot.who, queries)):
        return Readiness(state=ReadinessState.LOST, reason=why)
    for query in queries:
        for ask in _QUESTIONS:
            missing = ask(query, condition)
            if missing is not None:
                return _not_met(snapshot, condition, missing)
    return Readiness(state=ReadinessState.READY, reason=_met(snapshot, queries))


def _healthy(snapshot: StreamSnapshot, condition: Condition, wanted: timedelta) -> Readiness | None:
    if snapshot.lost is not None:
        return _while_down(snapshot, condition, snapshot.lost)
    verdict = snapshot.verdict
    if not verdict.is_well:
        return _not_yet(verdict.reason)
    if not snapshot.fresh:
        return _not_yet(_NO_SIGN)
    if verdict.healthy_for < wanted:
        return _not_yet(
            f"Healthy for {duration_text(verdict.healthy_for)} of "
            f"{duration_text(wanted)}. {verdict.reason}"
        )
    return None


def _is_current(snapshot: StreamSnapshot) -> bool:
    return snapshot.fresh and snapshot.verdict.state in _CURRENT


def _why_old(snapshot: StreamSnapshot) -> str:
    return snapshot.verdict.reason if snapshot.verdict.state not in _CURRENT else _NO_SIGN


def _not_met(snapshot: StreamSnapshot, condition: Condition, missing: str) -> Readiness:
    # Commits stay, so a stopped stream may meet a condition on data; if it does not now, it never
    # will while it is stopped.
    if snapshot.lost is not None:
        return _while_down(snapshot, condition, f"{missing} {snapshot.lost}")
    return _not_yet(missing)


def _while_down(snapshot: StreamSnapshot, condition: Condition, reason: str) -> Readiness:
    pause = snapshot.pause
    expected = pause.tolerated(condition.tolerate_stop) if pause is not None else ""
    if expected:
        return _not_yet(f"{reason} {expected}")
    return Readiness(state=ReadinessState.LOST, reason=reason)


def asked(snapshot: StreamSnapshot, name: str | None) -> tuple[QuerySnapshot, ...]:
    """Return the query of that name, or every query of the stream."""
    return tuple(query for query in snapshot.queries if name is None or query.name == name)


def with_watermark(queries: Sequence[QuerySnapshot]) -> tuple[QuerySnapshot, ...]:
    """Return the queries that have a watermark, or may have one."""
    return tuple(query for query in queries if query.has_watermark is not False)


def lacks_watermark(who: str, queries: Sequence[QuerySnapshot]) -> str:
    """Return why no watermark of these queries will ever pass a time; empty when one may."""
    if not queries or with_watermark(queries):
        return ""
    names = ", ".join(repr(query.name) for query in queries)
    return (
        f"No checked query of {who} has a watermark ({names}). Call withWatermark() in its script, "
        'or wait for commits: StreamProgressSensor, or stream_asset(on="batch").'
    )


def no_query(snapshot: StreamSnapshot, name: str | None) -> str:
    """Return why no query is checked."""
    if name is None:
        return f"No query of {snapshot.who} is known yet."
    known = ", ".join(query.name for query in snapshot.queries) or "none"
    return f"No query {name!r} in {snapshot.who}; known queries: {known}."


def _batch(query: QuerySnapshot, condition: Condition) -> str | None:
    wanted = condition.batch
    if wanted is None or (query.batch_id is not None and query.batch_id >= wanted):
        return None
    newest = "none yet" if query.batch_id is None else str(query.batch_id)
    return f"Query {query.name!r} has not committed batch {wanted}; its newest is {newest}."


def _committed(query: QuerySnapshot, condition: Condition) -> str | None:
    wanted = condition.committed_since
    if wanted is None or (query.committed_at is not None and query.committed_at >= wanted):
        return None
    newest = _time(query.committed_at)
    return f"Query {query.name!r} has committed nothing since {_time(wanted)}; last: {newest}."


def missing_watermark(query: QuerySnapshot) -> str:
    """Return why a query has no time to compare yet."""
    if query.has_watermark:
        return f"No row has moved the watermark of query {query.name!r} yet."
    return f"Query {query.name!r} has no watermark, or none yet. If it has none, name another one with query=."


def _watermark(query: QuerySnapshot, condition: Condition) -> str | None:
    wanted = condition.watermark
    if wanted is None or query.has_watermark is False:
        return None
    if query.watermark is None:
        return missing_watermark(query)
    if query.watermark >= wanted:
        return None
    return (
        f"The watermark of query {query.name!r} is {_time(query.watermark)}, not {_time(wanted)}."
    )


def _backlog(query: QuerySnapshot, condition: Condition) -> str | None:
    bound, unit = condition.backlog_below, condition.backlog_unit
    if bound is None:
        return None
    backlog: float | None = getattr(query, f"backlog_{unit}")
    if backlog is None:
        return f"The backlog of query {query.name!r} in {unit} is not known."
    if backlog < bound:
        return None
    seen, most = number_text(backlog, digits=6), number_text(bound, digits=6)
    return f"The backlog of query {query.name!r} is {seen} {unit}, not below {most}."


def _read(query: QuerySnapshot, condition: Condition) -> str | None:
    wanted = condition.read_until
    if wanted is None:
        return None
    if query.read_until is None:
        return (
            f"How far query {query.name!r} has read its sources by time is not known. Topics, tables, and files on its host "
            "tell it, and only after a batch of the present deployment."
        )
    if query.read_until >= wanted:
        return None
    return f"Query {query.name!r} has read everything up to {_time(query.read_until)}, not up to {_time(wanted)}."


def _caught_up(query: QuerySnapshot, condition: Condition) -> str | None:
    others = condition.caught_up_with
    if others is None:
        return None
    if not query.offsets:
        return f"The offsets of query {query.name!r} are not known, or too long for a status."
    if len(others) != len(query.offsets):
        return (
            f"Query {query.name!r} reads {len(query.offsets)} sources, the other stream "
            f"{len(others)}; their offsets cannot be compared."
        )
    for mine, other in zip(query.offsets, others, strict=True):
        ahead = is_at_least(mine, other)
        if ahead is None:
            return f"Offsets {mine:.80} and {other:.80} cannot be compared."
        if not ahead:
            return f"Query {query.name!r} is at {mine:.80}, the other stream at {other:.80}."
    return None


_QUESTIONS: Final[tuple[Callable[[QuerySnapshot, Condition], str | None], ...]] = (
    _batch,
    _committed,
    _watermark,
    _backlog,
    _read,
    _caught_up,
)


def _met(snapshot: StreamSnapshot, queries: tuple[QuerySnapshot, ...]) -> str:
    told = (
        f"{query.name} at batch {'-' if query.batch_id is None else query.batch_id}"
        + (f", watermark {_time(query.watermark)}" if query.watermark else "")
        for query in queries
    )
    return f"Reached by {snapshot.who}: {'; '.join(told)}."


def _not_yet(reason: str) -> Readiness:
    return Readiness(state=ReadinessState.WAITING, reason=reason)


def _time(moment: datetime | None) -> str:
    return "never" if moment is None else format_time(moment.replace(microsecond=0))[:19] + "Z"


def catch_up(snapshot: StreamSnapshot, other: StreamSnapshot, condition: Condition) -> Readiness:
    """
    Check a stream's condition, and that it has read at least as far as another one.

    :param other: The other stream at its present position, whatever its health.
    :param condition: Further conditions, and the query.
    """
    answer = gate(snapshot, condition)
    if answer.state is not ReadinessState.READY:
        return answer
    for mine in asked(snapshot, condition.query):
        theirs = _counterpart(mine, snapshot, other)
        if theirs is None or not theirs.offsets:
            return Readiness(state=ReadinessState.WAITING, reason=_unknown(mine, theirs, other))
        one = Condition(query=mine.name, caught_up_with=theirs.offsets)
        behind = gate(snapshot, one)
        if behind.state is not ReadinessState.READY:
            return behind
    return replace(answer, reason=f"{answer.reason} It has caught up with {other.who}.")


def _counterpart(
    mine: QuerySnapshot, snapshot: StreamSnapshot, other: StreamSnapshot
) -> QuerySnapshot | None:
    for theirs in other.queries:
        if theirs.name == mine.name:
            return theirs
    both_have_one = len(snapshot.queries) == len(other.queries) == 1
    return other.queries[0] if both_have_one else None


def _unknown(mine: QuerySnapshot, theirs: QuerySnapshot | None, other: StreamSnapshot) -> str:
    if theirs is not None:
        return (
            f"How far query {theirs.name!r} of {other.who} has read is not known, or too long for "
            "a status."
        )
    known = ", ".join(query.name for query in other.queries) or "none"
    return f"No query {mine.name!r} in {other.who} to compare with; known queries: {known}."
