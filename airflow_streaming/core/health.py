"""
Observation → Verdict: what is the matter with a driver and its queries.

"No data" is not "healthy", "slow" is not "dead", and "could not look" is not "failed". Small judges
look at one thing each: the process and its heartbeat (``liveness``), the batch in work
(``batches``), the figures (``rules``). The gravest answer is the verdict, and everything that fires
goes with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from airflow_streaming.core.batches import judge_batches
from airflow_streaming.core.codec import encode
from airflow_streaming.core.liveness import closed, judge_end, judge_silence, judge_spawning
from airflow_streaming.core.observation import Observation
from airflow_streaming.core.rules.recommended import recommended_rules
from airflow_streaming.core.rules.rule import Finding, HealthRule, RuleState, Severity
from airflow_streaming.core.status import DriverState, Status
from airflow_streaming.core.verdict import Verdict, VerdictState
from airflow_streaming.core.wire import decode


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """
    When silence, standstill or a figure becomes a verdict.

    :param hang_after: Silence of a driver that uses no CPU time, after which it is hung. A
        garbage-collection pause on a crowded machine was seen to last 20 s.
    :param suspended_after: The same for a driver whose processes are stopped, as by ``SIGSTOP``.
    :param busy_hang_after: The same for a driver that does use CPU time.
    :param startup_timeout: Time a launched driver has for its first sign of life; two Spark
        sessions that start together on two busy cores were measured to need 120 s.
    :param stall_after: Least time a batch may be in work before it counts as slow or stalled. The
        window grows with the query's processing interval and its own recent batches.
    :param stall_factor: ... to this many times the median of its recent batches.
    :param stalled: What a stalled query asks for.
    :param rules: Rules on figures.
    :raises ValueError: a window that takes a pause for a hang, or two rules of one name.
    """

    hang_after: timedelta = timedelta(seconds=45)
    suspended_after: timedelta = timedelta(seconds=30)
    busy_hang_after: timedelta = timedelta(minutes=10)
    startup_timeout: timedelta = timedelta(minutes=10)
    stall_after: timedelta = timedelta(minutes=5)
    stall_factor: float = 30.0
    stalled: Severity = Severity.ALERT
    rules: tuple[HealthRule, ...] = ()

    def __post_init__(self) -> None:
        for name in ("hang_after", "suspended_after", "startup_timeout", "stall_after"):
            if getattr(self, name) < timedelta(seconds=10):
                raise ValueError(f"{name} below 10 s takes a pause for a hang; the least is 10 s.")
        if self.stall_factor < 0:
            raise ValueError("stall_factor is a multiple of a duration; the least is 0.")
        names = [rule.name for rule in self.rules]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"Two health rules are called {min(twice)!r}; names are unique.")

    @classmethod
    def recommended(cls, *, rules: tuple[HealthRule, ...] = (), **limits: Any) -> Self:
        """
        Return the rules that operations guides repeat, as alerts.

        :param rules: Rules of your own; one with the name of a recommended rule replaces it.
        :param limits: See ``recommended_rules``; every limit has a default.
        :raises TypeError: there is no limit of that name.
        """
        own = {rule.name for rule in rules}
        usual = tuple(rule for rule in recommended_rules(**limits) if rule.name not in own)
        return cls(rules=usual + rules)

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as JSON; durations as seconds."""
        encoded: dict[str, Any] = encode(self)
        return encoded

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """
        Build the rules from their JSON form.

        :raises RecordError: a field is of the wrong type or out of its bounds.
        """
        return decode(cls, data, "health rules")


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
    standstill = judge_batches(
        status,
        stall_after=rules.stall_after,
        stall_factor=rules.stall_factor,
        stalled=rules.stalled,
    )
    firing = [finding for finding in seen.findings if finding.state is RuleState.FIRING]
    findings = _gravest_first([*standstill, *failed, *firing])
    if findings:
        return _unwell(status, findings)
    if status.standby:
        return Verdict(
            state=VerdictState.STARTING,
            reason=f"Driver of epoch {number} waits at the barrier until it is released.",
        )
    if status.first_progress_at is None and not _waits_for_data(status):
        return Verdict(
            state=VerdictState.STARTING,
            reason=f"Driver of epoch {number} has not committed a batch yet.",
        )
    return _well(status)


def _going_down(number: int, failed: list[Finding]) -> Verdict:
    reason = f"Driver of epoch {number} is stopping its queries."
    if not failed:
        return Verdict(state=VerdictState.STOPPING, reason=reason)
    # Nobody is told of it now: what becomes of it is decided, and told, when the driver has ended.
    first = failed[0]
    return Verdict(
        state=VerdictState.STOPPING,
        reason=f"{first.reason} {reason}",
        rule=first.rule,
        query=first.query,
    )


_STATE_OF_RULE = {"stalled": VerdictState.STALLED, "slow": VerdictState.SLOW}
"""What the judges of batches call their findings; every other finding is of a figure."""

_GRAVITY = (Severity.STOP, Severity.RESTART, Severity.ALERT)
_STATE_GRAVITY = (VerdictState.STALLED, VerdictState.DEGRADED, VerdictState.SLOW)


def _gravest_first(findings: list[Finding]) -> tuple[Finding, ...]:
    def gravity(finding: Finding) -> tuple[int, int]:
        return _GRAVITY.index(finding.severity), _STATE_GRAVITY.index(_state_of(finding))

    return tuple(sorted(findings, key=gravity))


def _state_of(finding: Finding) -> VerdictState:
    return _STATE_OF_RULE.get(finding.rule, VerdictState.DEGRADED)


def _unwell(status: Status, findings: tuple[Finding, ...]) -> Verdict:
    first, *others = findings
    also = f" ({len(others)} more findings)" if others else ""
    return Verdict(
        state=_state_of(first),
        reason=f"{first.reason}{also}",
        rule=first.rule,
        query=first.query,
        since=first.since,
        severity=first.severity,
        healthy_for=status.progressed_for,
        findings=findings,
    )


def _failed_queries(status: Status) -> list[Finding]:
    # A driver of ours ends with its first failed query; until it has, the verdict says why. A query
    # that has ended without an error was stopped by the script or had nothing more to read.
    return [
        Finding(
            rule="query_failed",
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
    waiting = all(not q.processing and not q.data_available for q in active)
    # A query that waits since its start has shown as much as it can.
    progressed_for = status.progressed_for or max(timedelta(0), status.at - status.started_at)
    return Verdict(
        state=VerdictState.IDLE if waiting else VerdictState.HEALTHY,
        reason=f"{len(active)} of {len(status.queries)} queries active, {status.batches} batches "
        f"committed in epoch {status.epoch}" + (", waiting for data." if waiting else "."),
        healthy_for=progressed_for,
        batches=status.batches,
    )


def _waits_for_data(status: Status) -> bool:
    # Spark's word for a query past its initialisation: "Waiting for data to arrive" or "Waiting
    # for next trigger" (MicroBatchExecution).
    return bool(status.queries) and all(
        query.active and query.message.startswith("Waiting") and not query.data_available
        for query in status.queries
    )
