"""
RestartPolicy + what has happened → RestartDecision: restart when, or give up.

The history is not a counter kept on the side: it is the decisions recorded for earlier epochs, so
no crash can lose or double a count. Chance is an argument, so that the decision can be tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final, Self

from airflow_streaming.core.failures.kind import (
    CLASS_OF_KIND,
    FailureClass,
    FailureKind,
    remedy_for,
)
from airflow_streaming.core.policy import Budget, RestartPolicy
from airflow_streaming.core.wire import Record

CLOCK_ERROR: Final = timedelta(minutes=5)
"""How far the clocks of two hosts may differ before a wait measured by them means nothing."""


class RestartAction(StrEnum):
    """What happens after an epoch has ended by failure."""

    RESTART = "restart"
    GIVE_UP = "give_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    An epoch that ended without having been asked to, or that a verdict stopped.

    :param kind: What sort of failure it was.
    :param signature: Equal for failures that look the same; ``None`` when there is no message.
    :param query: The query that failed.
    :param batch_id: The batch it was in.
    :param offsets: Source offsets of that batch.
    :param progressed_for: Time between the driver's first and last progress, by the driver's clock.
    :param batches: Batches the epoch committed.
    :param retryable: False when the same attempt can only fail the same way.
    :param trial: The epoch was the one try of a half-open circuit.
    """

    epoch: int
    reason: str
    kind: FailureKind = FailureKind.UNKNOWN
    signature: str | None = None
    query: str | None = None
    batch_id: int | None = None
    offsets: tuple[str, ...] = ()
    progressed_for: timedelta = timedelta(0)
    batches: int = 0
    retryable: bool = True
    trial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDecision(Record):
    """
    The one decision taken about a failed epoch, recorded before it is acted on.

    :param epoch: The epoch that ended.
    :param consecutive_failures: Failures in a row without healthy progress, this one included.
    :param next_attempt_at: When the restart is due; ``None`` when given up.
    :param backing_off: The restart waits.
    :param failure_kind: What sort of failure it was; ``signature``, ``query``, ``batch_id`` and
        ``offsets`` are the failure's own.
    :param remedy: What a person should do, where only a person can.
    """

    KIND: ClassVar[str] = "restart_decision"

    epoch: int
    action: RestartAction
    decided_at: datetime
    next_attempt_at: datetime | None
    consecutive_failures: int
    reason: str
    backing_off: bool = False
    failure_kind: FailureKind = FailureKind.UNKNOWN
    signature: str | None = None
    query: str | None = None
    batch_id: int | None = None
    offsets: tuple[str, ...] = ()
    remedy: str = ""

    def __post_init__(self) -> None:
        if (self.action is RestartAction.RESTART) != (self.next_attempt_at is not None):
            raise ValueError("A restart needs the time of its next attempt; giving up has none.")

    def is_waiting(self, now: datetime) -> bool:
        """Tell whether the restart is still to come."""
        if self.next_attempt_at is None or now >= self.next_attempt_at:
            return False
        # Decided in the future? Some host's clock is wrong, and the wait might last for years.
        return self.decided_at - now < CLOCK_ERROR

    @classmethod
    def restart(cls, failure: Failure, *, now: datetime, delay: timedelta, failures: int) -> Self:
        """Decide to restart after ``delay``."""
        return cls(
            epoch=failure.epoch,
            action=RestartAction.RESTART,
            decided_at=now,
            next_attempt_at=now + delay,
            backing_off=delay > timedelta(0),
            consecutive_failures=failures,
            reason=failure.reason,
            failure_kind=failure.kind,
            signature=failure.signature,
            query=failure.query,
            batch_id=failure.batch_id,
            offsets=failure.offsets,
        )

    @classmethod
    def give_up(
        cls, failure: Failure, *, now: datetime, failures: int, obstacle: str, remedy: str
    ) -> Self:
        """Decide to open the circuit."""
        return cls(
            epoch=failure.epoch,
            action=RestartAction.GIVE_UP,
            decided_at=now,
            next_attempt_at=None,
            consecutive_failures=failures,
            reason=f"{failure.reason} {obstacle}",
            failure_kind=failure.kind,
            signature=failure.signature,
            query=failure.query,
            batch_id=failure.batch_id,
            offsets=failure.offsets,
            remedy=remedy,
        )


def decide_restart(
    failure: Failure,
    *,
    earlier: Sequence[RestartDecision],
    policy: RestartPolicy,
    now: datetime,
    chance: float,
) -> RestartDecision:
    """
    Decide about a failed epoch.

    :param earlier: Decisions about earlier epochs since the circuit was last closed, oldest first.
    :param chance: A number from 0 to 1; 1 waits the whole bound.
    """
    failure = _poisoned(failure, earlier, policy)
    failures = 1 if _recovered(failure, policy) or not earlier else _one_more(earlier)
    obstacle = _obstacle(failure, earlier, policy, now)
    if obstacle is not None:
        return RestartDecision.give_up(
            failure,
            now=now,
            failures=failures,
            obstacle=obstacle,
            remedy=remedy_for(failure.kind),
        )
    return RestartDecision.restart(
        failure, now=now, delay=policy.bound(failures) * chance, failures=failures
    )


def _poisoned(
    failure: Failure, earlier: Sequence[RestartDecision], policy: RestartPolicy
) -> Failure:
    # A batch keeps its id and its offsets until it is committed, so that failures of the same batch
    # need not follow each other: a machine may have died in between.
    if failure.batch_id is None or failure.signature is None:
        return failure
    if CLASS_OF_KIND[failure.kind] is not FailureClass.APPLICATION:
        return failure
    same = (failure.query, failure.batch_id, failure.signature)
    before = sum((d.query, d.batch_id, d.signature) == same for d in earlier)
    if before + 1 < policy.poison_after:
        return failure
    return replace(failure, kind=FailureKind.POISON_BATCH)


def _obstacle(
    failure: Failure, earlier: Sequence[RestartDecision], policy: RestartPolicy, now: datetime
) -> str | None:
    if failure.kind is FailureKind.POISON_BATCH:
        return _poison_words(failure, policy)
    if not failure.retryable or failure.kind.needs_a_person:
        return "A restart would fail the same way."
    if failure.trial and not _recovered(failure, policy):
        return "It was the one try of a half-open circuit."
    failure_class = CLASS_OF_KIND[failure.kind]
    restarts = [
        made
        for made in earlier
        if made.action is RestartAction.RESTART
        and CLASS_OF_KIND[made.failure_kind] is failure_class
    ]
    for budget in policy.budgets_for(failure_class):
        spent = sum(now - restart.decided_at < budget.window for restart in restarts)
        if spent >= budget.restarts:
            return _spent_words(budget, failure_class)
    return None


def _poison_words(failure: Failure, policy: RestartPolicy) -> str:
    offsets = f" It reads {'; '.join(failure.offsets)}." if failure.offsets else ""
    return (
        f"Batch {failure.batch_id} of query {failure.query!r} has failed {policy.poison_after} "
        f"times in the same way.{offsets}"
    )


def _spent_words(budget: Budget, failure_class: FailureClass) -> str:
    return (
        f"The budget of {budget.restarts} restarts in {_words(budget.window)} for "
        f"{failure_class} failures is spent."
    )


def _recovered(failure: Failure, policy: RestartPolicy) -> bool:
    # Progress counts, not being alive: a driver can sit up for hours without committing a batch.
    return failure.progressed_for >= policy.reset_after and failure.batches >= policy.reset_batches


def _one_more(earlier: Sequence[RestartDecision]) -> int:
    return earlier[-1].consecutive_failures + 1


def _words(window: timedelta) -> str:
    seconds = int(window.total_seconds())
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
