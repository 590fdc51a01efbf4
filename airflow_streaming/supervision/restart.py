"""
Restart policy and history to decision: restart, when, or give up.

The history is not a counter kept on the side: it is the decisions recorded for earlier epochs, so
no crash can lose or double a count. Chance is an argument, so that the decision can be tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.health_rules import Severity
from airflow_streaming.model.observation import Observation, Verdict
from airflow_streaming.model.records.epoch import Exit, LaunchCause, StopRequest
from airflow_streaming.model.records.restart_decision import Failure, RestartAction, RestartDecision
from airflow_streaming.model.spark.failure_signs import FailureClass, FailureKind
from airflow_streaming.model.spark.failures import bad_input, diagnose

URGENT_SHARE: Final = 0.01
"""Share of the time to data loss that a wait before a restart may use."""
NEAR_LOSS: Final = timedelta(days=2)
"""The reason for giving up names a loss of data within this time."""
_APPLY: Final = (
    "Then apply the corrected copy: trigger the DAG of {stream} with restart=True (on the page: Apply the "
    "dag's edited spec), or run its upgrade DAG. If the cause was outside the copy, start the same copy: "
    "airflow-streaming start {stream} --again --reason TEXT"
)
_START: Final = (
    "Then start the stream: airflow-streaming start {stream} --reason TEXT (or StartStreamOperator)"
)


class Progress(Protocol):
    """How far a driver has come: a status, or a failure that quotes it."""

    @property
    def progressed_for(self) -> timedelta:
        """Return the time between its first and its last progress."""

    @property
    def batches(self) -> int:
        """Return the batches that it committed."""


def failures_in_a_row(
    decisions: Sequence[RestartDecision], progress: Iterable[Progress], policy: RestartPolicy
) -> int:
    """
    Return the failures since a driver last made healthy progress.

    :param decisions: About failed epochs since a user last closed the circuit, oldest first; the
        newest is enough.
    :param progress: Of every driver since the newest of them: a driver stopped by a user leaves no
        decision, and may have run well for days.
    """
    if not decisions or any(has_recovered(one, policy) for one in progress):
        return 0
    return decisions[-1].consecutive_failures


def decide_restart(
    failure: Failure,
    *,
    earlier: Sequence[RestartDecision],
    between: Sequence[Progress] = (),
    policy: RestartPolicy,
    now: datetime,
    chance: float,
) -> RestartDecision:
    """
    Decide about a failed epoch.

    :param earlier: Decisions about earlier epochs since the circuit was last closed, oldest first.
    :param between: Progress of drivers since the newest of them, which did not fail.
    :param chance: A number from 0 to 1; 1 waits the whole bound.
    """
    failure = _poisoned(failure, earlier, policy)
    failures = 1 + failures_in_a_row(earlier, (*between, failure), policy)
    return RestartDecision.of(
        failure,
        now=now,
        failures=failures,
        delay=urgent_delay(policy.bound(failures) * chance, failure.loss_at, now),
        obstacle=_with_loss(
            _obstacle(failure, earlier, policy, now, failures=failures), failure.loss_at, now
        ),
    )


def urgent_delay(delay: timedelta, loss_at: datetime | None, now: datetime) -> timedelta:
    """
    Return a wait that uses only a small share of the time that is left to the unread data.

    Data that is already lost makes nothing urgent.
    """
    if loss_at is None or loss_at <= now:
        return delay
    return min(delay, (loss_at - now) * URGENT_SHARE)


def _with_loss(obstacle: str | None, loss_at: datetime | None, now: datetime) -> str | None:
    if obstacle is None or loss_at is None or loss_at - now > NEAR_LOSS:
        return obstacle
    left = loss_at - now
    when = f"in {duration_text(left)}" if left > timedelta(0) else "by now"
    return f"{obstacle} Urgent: a source removes data that the stream has not read {when}."


def _poisoned(
    failure: Failure, earlier: Sequence[RestartDecision], policy: RestartPolicy
) -> Failure:
    # A batch keeps its id and its offsets until it is committed, so that failures of the same batch
    # need not follow each other: a machine may have died in between.
    if failure.batch_id is None or failure.signature is None:
        return failure
    if failure.kind.restart_class is not FailureClass.APPLICATION:
        return failure
    same = (failure.query, failure.batch_id, failure.signature)
    before = sum((d.query, d.batch_id, d.signature) == same for d in earlier)
    if before + 1 < policy.poison_after:
        return failure
    return replace(failure, kind=FailureKind.POISON_BATCH, remedy="")


def _obstacle(
    failure: Failure,
    earlier: Sequence[RestartDecision],
    policy: RestartPolicy,
    now: datetime,
    *,
    failures: int,
) -> str | None:
    if failure.kind is FailureKind.POISON_BATCH:
        return _poison_text(failure, policy)
    if not failure.retryable or failure.kind.needs_a_person:
        return "A restart would fail the same way."
    if failure.trial and not has_recovered(failure, policy):
        return "It was the half-open trial, so the circuit stays open."
    failure_class = failure.kind.restart_class
    if failure_class is FailureClass.OUTAGE:
        return _outage_text(earlier, policy, now) if failures > 1 else None
    restarts = [
        made
        for made in earlier
        if made.action is RestartAction.RESTART and made.failure_kind.restart_class is failure_class
    ]
    is_application = failure_class is FailureClass.APPLICATION
    for budget in policy.application_budgets if is_application else policy.budgets:
        # A decision of a clock that was ahead counts no longer than one of a clock that was right.
        spent = sum(age_of(restart.decided_at, now) < budget.window for restart in restarts)
        if spent >= budget.restarts:
            return _spent_text(budget, failure_class)
    return None


def _poison_text(failure: Failure, policy: RestartPolicy) -> str:
    named = bad_input(failure.reason)
    offsets = f" It reads {'; '.join(failure.offsets)}." if failure.offsets else ""
    rows = f" Rows with that value: {', '.join(failure.rows)}." if failure.rows else ""
    return (
        f"Batch {failure.batch_id} of query {failure.query!r} has failed {policy.poison_after} "
        f"times in the same way.{offsets}{f' {named}' if named else ''}{rows}"
    )


def _outage_text(
    earlier: Sequence[RestartDecision], policy: RestartPolicy, now: datetime
) -> str | None:
    """Say that an outage has lasted too long; it began with the first failure of this class in the row."""
    lasted = timedelta(0)
    for made in reversed(earlier):
        if made.failure_kind.restart_class is not FailureClass.OUTAGE:
            break
        lasted = age_of(made.decided_at, now)
        if made.consecutive_failures == 1:
            break
    if policy.max_outage is None or lasted < policy.max_outage:
        return None
    return f"The outage has lasted for {duration_text(lasted)}, longer than max_outage."


def _spent_text(budget: Budget, failure_class: FailureClass) -> str:
    return (
        f"The budget of {budget.restarts} restarts in {duration_text(budget.window)} for "
        f"{failure_class} failures is spent."
    )


def has_recovered(made: Progress, policy: RestartPolicy) -> bool:
    """Tell whether a driver made healthy progress, which ends a row of failures."""
    # Progress counts, not being alive: a driver can sit up for hours without committing a batch.
    return made.progressed_for >= policy.reset_after and made.batches >= policy.reset_batches


def fails_alike(decision: RestartDecision | None, failed: int, deployment: int | None) -> bool:
    """
    Tell whether another driver would run the copy that has failed, and fail in the same way.

    :param decision: About the newest epoch.
    :param failed: The deployment of that epoch.
    :param deployment: The deployment that the next driver would run.
    """
    return decision is not None and decision.failure_kind.is_in_copy and failed == deployment


def remedy_of(decision: RestartDecision, stream: str) -> str:
    """Return the remedy for a stream that gave up, with the command that restarts it."""
    remedy = decision.remedy or decision.failure_kind.remedy
    act = _APPLY if decision.failure_kind.is_in_copy else _START
    return f"{remedy} {act.format(stream=stream)}"


def failure_of(seen: Observation, verdict: Verdict, stop: StopRequest | None = None) -> Failure:
    """
    Return the failure of an epoch that has ended.

    :param stop: The request that stopped it, if any; a stop by a health verdict is a failure.
    """
    failure = Failure(
        epoch=seen.epoch.number,
        reason=verdict.reason,
        kind=FailureKind.KILLED,
        trial=seen.epoch.cause is LaunchCause.TRIAL,
    )
    if seen.exit is not None:
        failure = _told_by(seen.exit, failure)
    elif diagnose(text=seen.process.detail).kind is FailureKind.OUT_OF_MEMORY:
        # The cluster has ended the driver's container for its memory; no driver could record that.
        failure = replace(failure, kind=FailureKind.OUT_OF_MEMORY)
    if stop is not None and stop.verdict is not None:
        failure = replace(
            failure,
            reason=stop.reason,
            kind=FailureKind.UNHEALTHY,
            remedy="",
            retryable=stop.verdict is Severity.RESTART,
        )
    if seen.status is None:
        return failure
    loss = seen.status.loss
    return replace(
        failure,
        progressed_for=seen.status.progressed_for,
        batches=seen.status.batches,
        loss_at=None if loss is None else loss.at,
    )


def _told_by(exit: Exit, failure: Failure) -> Failure:
    kind = exit.failure_kind
    if kind is None:
        # Written by a driver that did not diagnose yet.
        kind = diagnose(
            text=exit.reason, exception_class=exit.exception_class, conditions=exit.conditions
        ).kind
    return replace(
        failure,
        kind=kind,
        signature=exit.signature,
        query=exit.query,
        batch_id=exit.batch_id,
        offsets=exit.offsets,
        rows=exit.rows,
        remedy=exit.remedy,
        retryable=exit.retryable,
    )
