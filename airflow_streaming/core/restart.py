"""
RestartPolicy + what has happened → RestartDecision: restart when, or give up.

The history is not a counter kept on the side: it is the decisions recorded for earlier epochs, so
no crash can lose or double a count. Chance is an argument, so that the decision can be tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final, Self

from airflow_streaming.core.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """
    At most this many restarts in any window of this length.

    :param restarts: How many restarts the window may hold.
    :param window: Length of the sliding window.
    """

    restarts: int
    window: timedelta

    def __post_init__(self) -> None:
        if self.restarts < 0 or self.window <= timedelta(0):
            raise ValueError("A restart budget needs restarts >= 0 and a positive window.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """
    When a failed stream comes back.

    The first restart after healthy progress is immediate. Each further one waits a random time
    between zero and a bound that starts at ``first_delay`` and doubles up to ``max_delay`` (full
    jitter, so that streams which failed together do not return together).

    :param first_delay: Bound of the second wait.
    :param max_delay: Largest bound.
    :param budgets: Restarts allowed per sliding window; spending any one opens the circuit.
    :param reset_after: A driver that made progress for this long clears the failure count.
    :param reset_batches: ... provided that it also committed this many batches.
    :param half_open_after: Try once again by itself this long after the circuit opened; ``None``
        leaves it to a person.
    """

    first_delay: timedelta = timedelta(seconds=5)
    max_delay: timedelta = timedelta(minutes=5)
    budgets: tuple[Budget, ...] = (
        Budget(restarts=5, window=timedelta(minutes=10)),
        Budget(restarts=20, window=timedelta(hours=24)),
    )
    reset_after: timedelta = timedelta(minutes=10)
    reset_batches: int = 20
    half_open_after: timedelta | None = None

    def __post_init__(self) -> None:
        if not timedelta(0) <= self.first_delay <= self.max_delay:
            raise ValueError("A restart policy needs 0 <= first_delay <= max_delay.")
        if self.half_open_after is not None and self.half_open_after <= timedelta(0):
            raise ValueError("half_open_after must be positive, or the circuit is never open.")

    def bound(self, consecutive_failures: int) -> timedelta:
        """Return the longest wait before the restart after that many failures in a row."""
        if consecutive_failures <= 1:
            return timedelta(0)
        # In floating point, because a timedelta of some days doubled thirty times overflows.
        doublings = min(consecutive_failures - 2, 60)
        seconds = self.first_delay.total_seconds() * 2.0**doublings
        longest = self.max_delay.total_seconds()
        return self.max_delay if seconds >= longest else timedelta(seconds=seconds)


CLOCK_ERROR: Final = timedelta(minutes=5)
"""How far the clocks of two hosts may differ before a wait measured by them means nothing."""


class RestartAction(StrEnum):
    """What happens after an epoch has ended by failure."""

    RESTART = "restart"
    GIVE_UP = "give_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDecision(Record):
    """
    The one decision taken about a failed epoch, recorded before it is acted on.

    :param epoch: The epoch that ended.
    :param consecutive_failures: Failures in a row without healthy progress, this one included.
    :param next_attempt_at: When the restart is due; ``None`` when given up.
    """

    KIND: ClassVar[str] = "restart_decision"

    epoch: int
    action: RestartAction
    decided_at: datetime
    next_attempt_at: datetime | None
    consecutive_failures: int
    reason: str

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
    def restart(
        cls, epoch: int, *, now: datetime, delay: timedelta, failures: int, reason: str
    ) -> Self:
        """Decide to restart after ``delay``."""
        return cls(
            epoch=epoch,
            action=RestartAction.RESTART,
            decided_at=now,
            next_attempt_at=now + delay,
            consecutive_failures=failures,
            reason=reason,
        )

    @classmethod
    def give_up(cls, epoch: int, *, now: datetime, failures: int, reason: str) -> Self:
        """Decide to open the circuit."""
        return cls(
            epoch=epoch,
            action=RestartAction.GIVE_UP,
            decided_at=now,
            next_attempt_at=None,
            consecutive_failures=failures,
            reason=reason,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    An epoch that ended without having been asked to.

    :param progressed_for: Time between the driver's first and last progress, by the driver's clock.
    :param batches: Batches the epoch committed.
    :param retryable: False when the same attempt can only fail the same way.
    :param trial: The epoch was the one try of a half-open circuit.
    """

    epoch: int
    reason: str
    progressed_for: timedelta = timedelta(0)
    batches: int = 0
    retryable: bool = True
    trial: bool = False


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
    failures = 1 if _recovered(failure, policy) or not earlier else _one_more(earlier)
    obstacle = _obstacle(failure, earlier, policy, now)
    if obstacle is not None:
        reason = f"{failure.reason} {obstacle}"
        return RestartDecision.give_up(failure.epoch, now=now, failures=failures, reason=reason)
    return RestartDecision.restart(
        failure.epoch,
        now=now,
        delay=policy.bound(failures) * chance,
        failures=failures,
        reason=failure.reason,
    )


def _obstacle(
    failure: Failure, earlier: Sequence[RestartDecision], policy: RestartPolicy, now: datetime
) -> str | None:
    if not failure.retryable:
        return "A restart would fail the same way."
    if failure.trial and not _recovered(failure, policy):
        return "It was the one try of a half-open circuit."
    restarts = [made for made in earlier if made.action is RestartAction.RESTART]
    for budget in policy.budgets:
        spent = sum(now - restart.decided_at < budget.window for restart in restarts)
        if spent >= budget.restarts:
            return f"The budget of {budget.restarts} restarts in {_words(budget.window)} is spent."
    return None


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
