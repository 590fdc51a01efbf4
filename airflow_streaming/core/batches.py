"""
Judges of the batch in work: long but at work is slow, long and quiet is stalled.

The window sizes itself: from the processing interval, and from what batches of this query have
lately taken. A batch twenty times as long as usual is a large batch, not a dead one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from statistics import median

from airflow_streaming.core.rules.rule import Finding, RuleState, Severity
from airflow_streaming.core.status import QueryStatus, Status

_INTERVALS = 3
"""Processing intervals a batch may take, and a query may go without one."""

_LONGEST = 3
"""Times the longest of the recent batches."""


def stall_window(query: QueryStatus, *, stall_after: timedelta, stall_factor: float) -> timedelta:
    """Return how long a batch of the query may take before it counts as slow or stalled."""
    return window_of(
        [duration / 1000 for duration in query.recent_durations_ms],
        interval=query.processing_interval_s or 0.0,
        stall_after=stall_after,
        stall_factor=stall_factor,
    )


def window_of(
    recent: Sequence[float], *, interval: float = 0.0, stall_after: timedelta, stall_factor: float
) -> timedelta:
    """
    Return how long a batch may take after others that took this long.

    :param recent: Seconds that recent batches took.
    :param interval: Seconds between the batches.
    """
    candidates = [stall_after.total_seconds(), _INTERVALS * interval]
    if recent:
        candidates += [stall_factor * median(recent), _LONGEST * max(recent)]
    return timedelta(seconds=max(candidates))


def judge_batches(
    status: Status, *, stall_after: timedelta, stall_factor: float, stalled: Severity
) -> list[Finding]:
    """Return what stands still, and what takes long."""
    findings = []
    for query in status.queries:
        window = stall_window(query, stall_after=stall_after, stall_factor=stall_factor)
        finding = _judge(query, status, window.total_seconds(), stalled)
        if finding is not None:
            findings.append(finding)
    return findings


def _judge(query: QueryStatus, status: Status, window: float, stalled: Severity) -> Finding | None:
    if not query.active:
        return None
    if query.processing:
        return _judge_batch(query, status, window, stalled)
    if not query.data_available:
        return None
    # The time since the last commit may be that of an idle night, when a batch is read as neither
    # committed nor in work; only the driver's own count of the wait is free of that.
    waits = query.committed_ago_s if query.ready_for_s is None else query.ready_for_s
    if waits is None or waits < window:
        return None
    reason = (
        f"Query {query.name!r} has had data to read for {waits:.0f} s and has not begun a batch; "
        f"it is given {window:.0f} s."
    )
    return _finding("stalled", query, status, reason, waits, window, stalled)


def _judge_batch(
    query: QueryStatus, status: Status, window: float, stalled: Severity
) -> Finding | None:
    batch_for, quiet_for = query.batch_for_s, query.quiet_for_s
    if batch_for is None or batch_for < window:
        return None
    batch = "" if query.planned_batch is None else f" {query.planned_batch}"
    words = (
        f"Batch{batch} of query {query.name!r} has been in work for {batch_for:.0f} s, more than "
        f"{window:.0f} s"
    )
    if quiet_for is None:
        reason = f"{words}; whether it is at work cannot be seen."
        return _finding("slow", query, status, reason, batch_for, window, Severity.ALERT)
    if quiet_for < window:
        reason = f"{words}, but is at work."
        return _finding("slow", query, status, reason, batch_for, window, Severity.ALERT)
    reason = f"{words}, and has shown no sign of work for {quiet_for:.0f} s."
    return _finding("stalled", query, status, reason, quiet_for, window, stalled)


def _finding(
    rule: str,
    query: QueryStatus,
    status: Status,
    reason: str,
    figure: float,
    window: float,
    severity: Severity,
) -> Finding:
    return Finding(
        rule=rule,
        state=RuleState.FIRING,
        severity=severity,
        query=query.name,
        reason=reason,
        figure=figure,
        bound=window,
        since=status.at - timedelta(seconds=figure),
    )
