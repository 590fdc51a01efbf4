"""
Judge an external stream by its evidence.

Durations are seconds by the observer's own clock, because only a listener can time silence; the
times of the store and of the driver are other clocks.

Its checkpoint shows planned and committed batches and no more: an idle query and a dead one leave
the same files. So silence without a planned batch is "unreachable", unless the driver's metrics
endpoint proves that the query lives or has ended. Of the store's times only differences are used.
The result is at most an alert, because an external stream is never restarted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import Finding, HealthRules, RuleState, Severity
from airflow_streaming.model.observation import Verdict, VerdictState
from airflow_streaming.model.spark.tail import Tail
from airflow_streaming.supervision.external.endpoint_reply import (
    Application,
    EndpointSight,
    EndpointState,
)
from airflow_streaming.supervision.health import window_of
from airflow_streaming.supervision.readiness.snapshot import QuerySnapshot

CERTAIN_AFTER: Final = 5.0
"""Seconds that a refusal or a missing gauge must last: a driver may be seen between two moments."""
_INTERVALS: Final = 3
_GRAVITY: Final = (
    VerdictState.DEAD,
    VerdictState.FAILED,
    VerdictState.STALLED,
    VerdictState.UNREACHABLE,
    VerdictState.DEGRADED,
    VerdictState.SLOW,
    VerdictState.STARTING,
    VerdictState.HEALTHY,
    VerdictState.IDLE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEvidence:
    """
    Evidence on one query; durations in seconds, by the observer's own clock.

    :param quiet_for: Since the newest commit was first seen, or since the observer started.
    :param planned_for: Since the planned batch was first seen; ``None`` without one.
    :param fresh: A commit was made while the observer listened.
    :param has_gauge: The endpoint shows gauges of the query; ``None`` if unknown.
    :param gauge_lost_for: Since the gauges were first missed after they had been seen.
    """

    tail: Tail
    quiet_for: float
    planned_for: float | None = None
    fresh: bool = False
    has_gauge: bool | None = None
    gauge_lost_for: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalEvidence:
    """
    Evidence on an external stream.

    :param who: The checkpoint's location.
    :param endpoint: The last answer of its metrics endpoint; ``None`` without one.
    :param application: The first application seen at the endpoint.
    :param refused_for: Seconds since the endpoint began to refuse.
    :param changed_for: Seconds since the endpoint belongs to another application.
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
    Return the name of a query's gauges; ``None`` if unknown.

    A checkpoint knows the query's id but not its name, and named queries' gauges use the name.

    :param is_only: No other checkpoint is watched.
    """
    for name in (tail.query_id, tail.name):
        if name in gauges:
            return name
    return next(iter(gauges)) if is_only and len(gauges) == 1 else None


def to_query_sight(tail: Tail) -> QuerySnapshot:
    """Return a query's snapshot from its checkpoint; its backlog is unknown."""
    return QuerySnapshot(
        name=tail.name,
        batch_id=tail.committed,
        committed_at=tail.committed_at,
        watermark=tail.watermark,
        planned_batch=tail.planned,
        offsets=tail.offsets,
    )


def judge_external(seen: ExternalEvidence, rules: HealthRules) -> Verdict:
    """Judge a stream that we did not launch; the gravest query speaks for it."""
    if not seen.queries:
        reason = (
            f"No checkpoint of a streaming query in {seen.who}: no folder 'offsets', "
            "neither there nor in its subfolders. Check the location, and that its store is "
            "mounted."
        )
        return _firing(seen, VerdictState.UNREACHABLE, "no_checkpoint", reason)
    gone = _judge_driver(seen)
    if gone is not None:
        return gone
    judged = [_judge_query(query, seen, rules) for query in seen.queries]
    changed = _judge_change(seen)
    verdicts = sorted([*judged, *([changed] if changed else [])], key=_gravity)
    findings = tuple(finding for verdict in verdicts for finding in verdict.findings)
    first = verdicts[0]
    more = len(findings) - 1
    also = f" ({more} more findings)" if more > 0 else ""
    return replace(first, reason=f"{first.reason}{also}", findings=findings)


def quiet_window(tail: Tail, rules: HealthRules) -> timedelta:
    """Return how long a query may commit nothing before it counts as quiet."""
    usual = _INTERVALS * median(tail.intervals) if tail.intervals else 0.0
    return max(rules.stall_after, timedelta(seconds=usual))


def stall_window(tail: Tail, rules: HealthRules) -> timedelta:
    """Return how long a planned batch of a query may stay uncommitted before it counts as stalled."""
    return window_of(tail.durations, stall_after=rules.stall_after, stall_factor=rules.stall_factor)


def _judge_driver(seen: ExternalEvidence) -> Verdict | None:
    if seen.endpoint is None or seen.endpoint.state is not EndpointState.REFUSED:
        return None
    quiet = min(query.quiet_for for query in seen.queries)
    if seen.application is None or not CERTAIN_AFTER <= seen.refused_for <= quiet:
        return None
    reason = (
        f"The driver of application {seen.application.id} is gone: its metrics endpoint answered "
        f"before and has refused connections for {duration_text(seen.refused_for)}, and nothing was "
        f"committed in that time; {_newest(seen.queries)}."
    )
    return _firing(seen, VerdictState.DEAD, "driver_gone", reason, figure=seen.refused_for)


def _judge_change(seen: ExternalEvidence) -> Verdict | None:
    now, before = seen.endpoint.application if seen.endpoint else None, seen.application
    if now is None or before is None or now == before:
        return None
    words = f"The metrics endpoint is now of application {now.id}, and was of {before.id}"
    if min(query.quiet_for for query in seen.queries) < seen.changed_for:
        state, end = VerdictState.DEGRADED, "the stream commits, so it was probably started anew."
    else:
        state, end = VerdictState.UNREACHABLE, "nothing was committed since: it is gone or moved."
    return _firing(seen, state, "application_changed", f"{words}; {end}", figure=seen.changed_for)


def _judge_query(query: QueryEvidence, seen: ExternalEvidence, rules: HealthRules) -> Verdict:
    tail = query.tail
    if tail.unknown is not None:
        reason = f"Query {tail.name!r} cannot be judged: {tail.unknown}"
        return _firing(seen, VerdictState.UNREACHABLE, "unreadable", reason, query=tail.name)
    if CERTAIN_AFTER <= query.gauge_lost_for <= query.quiet_for:
        return _ended(query, seen)
    if query.planned_for is not None:
        return _judge_planned(query, query.planned_for, seen, rules)
    return _judge_quiet(query, seen, rules)


def _ended(query: QueryEvidence, seen: ExternalEvidence) -> Verdict:
    reason = (
        f"Query {query.tail.name!r} has ended while its application is still running: its gauges "
        f"have been gone from the metrics endpoint for {duration_text(query.gauge_lost_for)}, "
        "without a commit since. The driver's log has the reason."
    )
    # A stream of several queries is only hurt by the end of one of them.
    alone = all(CERTAIN_AFTER <= q.gauge_lost_for <= q.quiet_for for q in seen.queries)
    state = VerdictState.FAILED if alone else VerdictState.DEGRADED
    return _firing(
        seen, state, "query_ended", reason, query=query.tail.name, figure=query.gauge_lost_for
    )


def _judge_planned(
    query: QueryEvidence, planned_for: float, seen: ExternalEvidence, rules: HealthRules
) -> Verdict:
    tail, window = query.tail, stall_window(query.tail, rules).total_seconds()
    words = f"Batch {tail.planned} of query {tail.name!r} has been planned for {duration_text(planned_for)}"
    if planned_for >= window:
        reason = f"{words} and is not committed, which is more than {duration_text(window)}. {_also(seen)}"
        return _firing(
            seen,
            VerdictState.STALLED,
            "stalled",
            reason,
            query=tail.name,
            figure=planned_for,
            bound=window,
        )
    return _within_window(query, seen, f"{words} of {duration_text(window)}.")


def _judge_quiet(query: QueryEvidence, seen: ExternalEvidence, rules: HealthRules) -> Verdict:
    tail, window = query.tail, quiet_window(query.tail, rules).total_seconds()
    words = f"Query {tail.name!r} has committed nothing for {duration_text(query.quiet_for)}"
    if query.has_gauge and (query.quiet_for >= window or not query.fresh):
        reason = f"{words} and plans nothing; its application is alive and has gauges of it."
        return Verdict(state=VerdictState.IDLE, reason=reason, query=tail.name)
    if query.quiet_for < window:
        return _within_window(query, seen, f"{words} of {duration_text(window)}.")
    reason = (
        f"{words}, and no batch planned since. From a checkpoint alone, an idle query and a dead "
        f"one look the same. {_also(seen)}"
    )
    return _firing(
        seen,
        VerdictState.UNREACHABLE,
        "quiet",
        reason,
        query=tail.name,
        figure=query.quiet_for,
        bound=window,
    )


def _within_window(query: QueryEvidence, seen: ExternalEvidence, words: str) -> Verdict:
    name, endpoint = query.tail.name, seen.endpoint
    if not query.fresh:
        reason = f"Listening for a sign of life; {_newest((query,))}. {words}"
        return Verdict(state=VerdictState.STARTING, reason=reason, query=name)
    is_slow = endpoint is not None and endpoint.state is EndpointState.TIMED_OUT
    if endpoint is not None and is_slow and seen.application is not None and query.quiet_for > 0:
        reason = f"The driver does not answer in time: {endpoint.reason} {words}"
        return _firing(seen, VerdictState.SLOW, "slow", reason, query=name, figure=query.quiet_for)
    return Verdict(state=VerdictState.HEALTHY, reason=f"{_newest((query,))}. {words}")


def _also(seen: ExternalEvidence) -> str:
    endpoint = seen.endpoint
    if endpoint is None:
        return "The driver's metrics endpoint would tell more."
    if endpoint.state is not EndpointState.ANSWERED:
        return f"Its metrics endpoint does not help: {endpoint.reason}"
    if endpoint.application != seen.application:
        return "Its metrics endpoint is of another application."
    if not endpoint.queries:
        return (
            "Its application is alive, but has no gauges of queries; they need "
            "spark.sql.streaming.metricsEnabled."
        )
    return "Its application is alive."


def _firing(
    seen: ExternalEvidence,
    state: VerdictState,
    rule: str,
    reason: str,
    *,
    query: str = "",
    figure: float = 0.0,
    bound: float | None = None,
) -> Verdict:
    finding = Finding(
        rule=rule,
        state=RuleState.FIRING,
        severity=Severity.ALERT,
        query=query,
        reason=reason,
        figure=figure,
        bound=bound,
        since=seen.now - timedelta(seconds=figure),
    )
    return Verdict.of(state, (finding,))


def _newest(queries: tuple[QueryEvidence, ...]) -> str:
    told = (
        f"query {query.tail.name!r} has committed batch {query.tail.committed}"
        if query.tail.committed is not None
        else f"query {query.tail.name!r} has committed no batch yet"
        for query in queries[:3]
    )
    return ", ".join(told) + (", ..." if len(queries) > 3 else "")


def _gravity(verdict: Verdict) -> int:
    return _GRAVITY.index(verdict.state)
