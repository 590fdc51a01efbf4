"""
Judge an observation: the state of a driver and its queries.

"Slow" is not "dead", "no data" is not "healthy", and "could not look" is not "failed". Small judges
check one thing each and return a verdict or ``None``: the process and its heartbeat (``liveness``),
the running batch (``batches``), the figures (``rules``). The gravest answer is the verdict, and
every firing finding is attached.

The window sizes itself: from the processing interval, and from the recent batches of this query. A
batch twenty times as long as usual is a large batch, not a dead one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from statistics import median
from typing import Final

from airflow_streaming.exceptions import closed
from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.health_rules import (
    DATA_LOSS,
    QUERY_FAILED,
    Finding,
    HealthRules,
    RuleState,
    Severity,
)
from airflow_streaming.model.observation import (
    BUSY_SHARE,
    Observation,
    ProcessState,
    Verdict,
    VerdictState,
)
from airflow_streaming.model.records.epoch import Epoch, LaunchCause, Outcome
from airflow_streaming.model.status import DriverState, PauseStatus, QueryStatus, Status

SPAWN_GRACE: Final = timedelta(seconds=30)
"""
Creating an epoch and recording its driver takes a launcher milliseconds; for this long another task
assumes that it is still working.
"""


SUBMIT_GRACE: Final = timedelta(minutes=3)
"""The same for a cluster's launcher: a ``spark-submit`` takes 8 to 14 s and may take 170."""

_INTERVALS = 3
"""Processing intervals a batch may take, and a query may go without one."""
_LONGEST = 3
"""Times the longest of the recent batches."""

_STATE_OF_RULE = {
    "stalled": VerdictState.STALLED,
    "no_executor": VerdictState.STALLED,
    "source_unreachable": VerdictState.STALLED,
    "slow": VerdictState.SLOW,
}
"""Names of the findings on batches and executors; every other finding is on a figure."""
_GRAVITY = (Severity.STOP, Severity.RESTART, Severity.ALERT)
_STATE_GRAVITY = (VerdictState.STALLED, VerdictState.DEGRADED, VerdictState.SLOW)


def spawn_grace(epoch: Epoch) -> timedelta:
    """Return how long after its creation an epoch without a driver counts as being launched."""
    return SPAWN_GRACE if epoch.launcher == "local" else SUBMIT_GRACE


def judge_spawning(seen: Observation) -> Verdict | None:
    """Say whether the driver is only being started."""
    if not _is_being_spawned(seen):
        return None
    return Verdict(
        state=VerdictState.STARTING,
        reason=f"Epoch {seen.epoch.number} was begun moments ago; its driver is being started.",
    )


def judge_end(seen: Observation) -> Verdict | None:
    """Say how the driver ended, if it is proved gone."""
    return _judge_dead(seen) if seen.is_dead else None


def judge_silence(
    seen: Observation,
    *,
    hang_after: timedelta,
    suspended_after: timedelta,
    busy_hang_after: timedelta,
    startup_timeout: timedelta,
) -> Verdict | None:
    """Judge a heartbeat that does not rise; the parameters are from the rules."""
    silent = seen.silent_for
    words = f"Driver of epoch {seen.epoch.number} has been silent for {duration_text(silent)}"
    detail = seen.process.detail
    if _is_suspended(seen, suspended_after):
        return _silent(seen, VerdictState.HUNG, f"{words} and is suspended ({detail}).")
    if silent < (startup_timeout if seen.status is None else hang_after):
        return None
    if seen.process.state is ProcessState.UNSEEN:
        return _silent(
            seen, VerdictState.UNREACHABLE, f"{words} and cannot be observed: {closed(detail)}"
        )
    if _is_busy(seen, hang_after) and silent < busy_hang_after:
        return _silent(seen, VerdictState.SLOW, f"{words} but uses CPU time.")
    return _silent(seen, VerdictState.HUNG, f"{words} ({detail}).")


def _silent(seen: Observation, state: VerdictState, reason: str) -> Verdict:
    since = seen.now - seen.silent_for
    severity = Severity.RESTART if state is VerdictState.HUNG else Severity.ALERT
    finding = Finding(
        rule=state.value,
        state=RuleState.FIRING,
        severity=severity,
        query="",
        reason=reason,
        figure=seen.silent_for.total_seconds(),
        since=since,
    )
    return Verdict.of(state, (finding,))


def _judge_dead(seen: Observation) -> Verdict:
    number = seen.epoch.number
    if seen.exit is not None:
        state = {
            Outcome.COMPLETED: VerdictState.COMPLETED,
            Outcome.STOPPED: VerdictState.STOPPED,
            Outcome.FENCED: VerdictState.STOPPED,
            Outcome.FAILED: VerdictState.FAILED,
        }[seen.exit.outcome]
        return Verdict(
            state=state, reason=closed(f"Driver of epoch {number} ended: {seen.exit.reason}")
        )
    if seen.epoch.cause is LaunchCause.FENCE:
        reason = f"Epoch {number} is a fence, for which no driver is started: {seen.epoch.reason}"
        return Verdict(state=VerdictState.STOPPED, reason=closed(reason))
    if seen.death is None and seen.is_past_lease:
        return Verdict(state=VerdictState.DEAD, reason=_past_lease(seen))
    proof = seen.death.evidence if seen.death is not None else seen.process.detail
    return Verdict(
        state=VerdictState.DEAD,
        reason=closed(f"Driver of epoch {number} is gone and left no exit record: {proof}"),
    )


def _past_lease(seen: Observation) -> str:
    lease = duration_text(seen.epoch.lease or timedelta(0))
    return (
        f"Driver of epoch {seen.epoch.number} is out of sight ({seen.process.detail}) and has been "
        f"silent for {duration_text(seen.silent_for)}. With a lease of {lease} it has ended itself."
    )


def _is_being_spawned(seen: Observation) -> bool:
    # Another task may be between "epoch created" and "driver recorded". Taking the next epoch now
    # would fence a driver that has not even begun. The age may be negative: clocks get set back.
    traces = (seen.launch, seen.status, seen.exit, seen.death)
    unborn = all(trace is None for trace in traces)
    return unborn and age_of(seen.epoch.created_at, seen.now) < spawn_grace(seen.epoch)


def _is_suspended(seen: Observation, suspended_after: timedelta) -> bool:
    # Both must last: a heartbeat that was late anyway says nothing of a short stop.
    lasts = seen.silent_for if seen.suspended_for is None else seen.suspended_for
    is_suspended = seen.process.state is ProcessState.SUSPENDED
    return is_suspended and min(lasts, seen.silent_for) >= suspended_after


def _is_busy(seen: Observation, hang_after: timedelta) -> bool:
    if seen.exit is not None:
        # After its last word a driver has nothing to be busy with.
        return False
    if seen.flat_for is not None:
        return seen.flat_for < hang_after
    used = seen.cpu_in_silence
    return used is not None and used > BUSY_SHARE * seen.silent_for.total_seconds()


def stall_window(query: QueryStatus, *, stall_after: timedelta, stall_factor: float) -> timedelta:
    """Return how long a batch of the query may take before it counts as slow or stalled."""
    if query.checkpoint_interval_s is not None:
        # Every batch in real-time mode takes its interval; older ones tell nothing of the newest.
        return timedelta(seconds=query.checkpoint_interval_s) + stall_after
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
    """Return findings on stalled and long batches."""
    findings = []
    for query in status.queries:
        window = stall_window(query, stall_after=stall_after, stall_factor=stall_factor)
        finding = _judge(query, status, window.total_seconds(), stalled)
        if finding is not None:
            findings.append(finding)
    return findings


def judge_sources(status: Status, *, source_unreachable_after: timedelta) -> list[Finding]:
    """
    Return the queries that wait for brokers which accept no connection.

    It asks for an alert only: another driver would wait for the same brokers.
    """
    bound = source_unreachable_after.total_seconds()
    return [
        _finding(
            "source_unreachable",
            query,
            status,
            f"Query {query.name!r} has waited for {duration_text(query.refused_for_s)}. {query.refusal}",
            query.refused_for_s,
            bound,
            Severity.ALERT,
        )
        for query in status.queries
        if query.active and query.refusal and (query.refused_for_s or 0.0) >= bound
        if query.refused_for_s is not None
    ]


def judge_executors(status: Status, *, no_executor_after: timedelta) -> list[Finding]:
    """
    Return that there has been no executor for too long though there is work for one.

    It asks for an alert only: another driver would wait for the same quota, image or node.
    """
    executors = status.executors
    if executors is None or executors.none_for_s is None:
        return []
    has_work = not status.queries or any(
        query.active and (query.processing or query.data_available) for query in status.queries
    )
    if not has_work or executors.none_for_s < no_executor_after.total_seconds():
        return []
    wanted = f" of {executors.wanted} wanted" if executors.wanted else ""
    reason = f"There has been no executor{wanted} for {duration_text(executors.none_for_s)}."
    if executors.lost_last_hour:
        reason += f" {executors.lost_last_hour} were lost in the last hour."
    if executors.reason:
        reason += f" The last one went with: {closed(executors.reason)}"
    return [
        Finding(
            rule="no_executor",
            state=RuleState.FIRING,
            severity=Severity.ALERT,
            query="",
            reason=reason,
            figure=executors.none_for_s,
            bound=no_executor_after.total_seconds(),
            since=status.at - timedelta(seconds=executors.none_for_s),
        )
    ]


def _judge(query: QueryStatus, status: Status, window: float, stalled: Severity) -> Finding | None:
    if not query.active:
        return None
    if query.epoch_interval_s is not None:
        return _judge_epochs(
            query, status, max(window, _INTERVALS * query.epoch_interval_s), stalled
        )
    if query.processing:
        return _judge_batch(query, status, window, stalled)
    if not query.data_available:
        return None
    # The time since the last commit may include an idle night, when a batch is seen as neither
    # committed nor running; only the driver's own count of the wait excludes it.
    waits = query.committed_ago_s if query.ready_for_s is None else query.ready_for_s
    if waits is None or waits < window:
        return None
    reason = (
        f"Query {query.name!r} has had data to read for {duration_text(waits)} and has not begun "
        f"a batch; the limit is {duration_text(window)}."
    )
    return _finding("stalled", query, status, reason, waits, window, stalled)


def _judge_epochs(
    query: QueryStatus, status: Status, window: float, stalled: Severity
) -> Finding | None:
    ago = query.committed_ago_s
    if ago is None or ago < window:
        return None
    reason = (
        f"Query {query.name!r} is continuous and has committed no epoch for {duration_text(ago)}; the limit is "
        f"{duration_text(window)}."
    )
    return _finding("stalled", query, status, reason, ago, window, stalled)


def _judge_batch(
    query: QueryStatus, status: Status, window: float, stalled: Severity
) -> Finding | None:
    batch_for, quiet_for = query.batch_for_s, query.quiet_for_s
    if batch_for is None or batch_for < window:
        return None
    batch = "" if query.planned_batch is None else f" {query.planned_batch}"
    words = (
        f"Batch{batch} of query {query.name!r} has been in work for {duration_text(batch_for)}, more than "
        f"{duration_text(window)}"
    )
    if quiet_for is None:
        reason = f"{words}; whether it is at work cannot be seen."
        return _finding("slow", query, status, reason, batch_for, window, Severity.ALERT)
    if quiet_for < window:
        reason = f"{words}, but is at work."
        return _finding("slow", query, status, reason, batch_for, window, Severity.ALERT)
    reason = f"{words}, and has shown no sign of work for {duration_text(quiet_for)}."
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


def judge(seen: Observation, rules: HealthRules) -> Verdict:
    """Judge one observation."""
    return (
        judge_spawning(seen)
        or judge_end(seen)
        or judge_silence(
            seen,
            hang_after=rules.hang_after,
            suspended_after=rules.suspended_after,
            busy_hang_after=rules.busy_hang_after,
            startup_timeout=rules.startup_timeout,
        )
        or _judge_alive(seen, rules)
    )


def _judge_alive(seen: Observation, rules: HealthRules) -> Verdict:
    number, status = seen.epoch.number, seen.status
    if seen.exit is not None:
        return Verdict(
            state=VerdictState.STOPPING,
            reason=closed(f"Driver of epoch {number} is going down: {seen.exit.reason}"),
        )
    if status is None:
        return Verdict(
            state=VerdictState.STARTING, reason=f"Driver of epoch {number} is starting Spark."
        )
    failed = _failed_queries(status)
    if status.state is DriverState.STOPPING:
        return _going_down(number, failed)
    if status.pause is not None and status.is_held and not failed:
        return _paused(status, status.pause, seen.findings)
    # A batch without brokers or executors is the symptom of that.
    standstill = (
        judge_sources(status, source_unreachable_after=rules.source_unreachable_after)
        or judge_executors(status, no_executor_after=rules.no_executor_after)
        or judge_batches(
            status,
            stall_after=rules.stall_after,
            stall_factor=rules.stall_factor,
            stalled=rules.stalled,
        )
    )
    firing = [finding for finding in seen.findings if finding.state is RuleState.FIRING]
    findings = _gravest_first([*standstill, *failed, *firing])
    if findings:
        return Verdict.of(_state_of(findings[0]), findings, healthy_for=status.progressed_for)
    if status.standby:
        return Verdict(
            state=VerdictState.STARTING,
            reason=f"Driver of epoch {number} waits at the barrier until it is released.",
        )
    if status.first_progress_at is None and not _waits_for_data(status):
        return Verdict(
            state=VerdictState.STARTING,
            reason=_nothing_committed(status),
        )
    return _well(status)


def _paused(status: Status, hold: PauseStatus, findings: Sequence[Finding]) -> Verdict:
    """Judge a stream that stands still on purpose; only a loss of unread data still counts."""
    losing = [
        finding
        for finding in findings
        if finding.rule == DATA_LOSS and finding.state is RuleState.FIRING
    ]
    return Verdict(
        state=VerdictState.PAUSED,
        reason=f"Pause {hold.number} has held every query between two batches for "
        f"{duration_text(hold.held_for_s)}. It ends within {duration_text(hold.left_s)}.",
        since=status.at - timedelta(seconds=hold.held_for_s),
        healthy_for=status.progressed_for,
        findings=tuple(replace(finding, severity=Severity.ALERT) for finding in losing),
    )


def _going_down(number: int, failed: list[Finding]) -> Verdict:
    reason = f"Driver of epoch {number} is stopping its queries."
    if not failed:
        return Verdict(state=VerdictState.STOPPING, reason=reason)
    # No alert now: what follows is decided, and sent, when the driver has ended.
    first = failed[0]
    return Verdict(
        state=VerdictState.STOPPING,
        reason=f"{first.reason} {reason}",
        rule=first.rule,
        query=first.query,
    )


def _gravest_first(findings: list[Finding]) -> tuple[Finding, ...]:
    def gravity(finding: Finding) -> tuple[int, int]:
        return _GRAVITY.index(finding.severity), _STATE_GRAVITY.index(_state_of(finding))

    return tuple(sorted(findings, key=gravity))


def _state_of(finding: Finding) -> VerdictState:
    return _STATE_OF_RULE.get(finding.rule, VerdictState.DEGRADED)


def _failed_queries(status: Status) -> list[Finding]:
    # A driver of ours ends with its first failed query; until it has, the verdict says why. A query
    # that has ended without an error was stopped by the script or had nothing more to read.
    return [
        Finding(
            rule=QUERY_FAILED,
            state=RuleState.FIRING,
            severity=Severity.ALERT,
            query=query.name,
            reason=closed(f"Query {query.name!r} has failed: {query.error}"),
        )
        for query in status.queries
        if not query.active and query.error is not None
    ]


def _well(status: Status) -> Verdict:
    active = [query for query in status.queries if query.active]
    waiting = not any(query.is_reading for query in active)
    batches = sum(query.batches for query in status.queries if not query.is_continuous)
    # A query that waits since its start has shown as much as it can.
    progressed_for = status.progressed_for or max(timedelta(0), status.at - status.started_at)
    return Verdict(
        state=VerdictState.IDLE if waiting else VerdictState.HEALTHY,
        reason=f"{len(active)} of {len(status.queries)} queries active, {batches} batches "
        f"committed in epoch {status.epoch}"
        + (", waiting for data." if waiting else ".")
        + _continuous(active)
        + _real_time(active),
        healthy_for=progressed_for,
        batches=status.batches,
    )


def _nothing_committed(status: Status) -> str:
    if any(query.is_continuous for query in status.queries):
        return f"Driver of epoch {status.epoch} has not been seen to commit an epoch of Spark yet."
    return f"Driver of epoch {status.epoch} has not committed a batch yet."


def _continuous(active: Sequence[QueryStatus]) -> str:
    """Return a sentence for each continuous query, with a blank before it."""
    return "".join(
        f" Query {query.name!r} is continuous: Spark reports no batches and no figures of it; "
        f"{query.batches} of Spark's epochs committed."
        for query in active
        if query.is_continuous
    )


def _real_time(active: Sequence[QueryStatus]) -> str:
    """Return a sentence for each query in real-time mode, with a blank before it."""
    return "".join(
        f" Query {query.name!r} runs in real-time mode and commits every {duration_text(query.checkpoint_interval_s)}."
        for query in active
        if query.checkpoint_interval_s is not None
    )


def _waits_for_data(status: Status) -> bool:
    return bool(status.queries) and all(
        query.active and query.waits_for_trigger and not query.data_available
        for query in status.queries
    )
