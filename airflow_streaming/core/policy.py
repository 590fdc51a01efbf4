"""RestartPolicy: when a stream that failed, or that a verdict stopped, comes back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from airflow_streaming.core.blackout import Blackout
from airflow_streaming.core.codec import encode
from airflow_streaming.core.failures.kind import FailureClass
from airflow_streaming.core.wire import decode


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

    A failure is charged to the budgets of its class. A damaged checkpoint, incompatible state, a
    second writer and a wrong configuration are never restarted.

    :param first_delay: Bound of the second wait.
    :param max_delay: Largest bound.
    :param budgets: Restarts allowed per sliding window after failures of the infrastructure, and
        after verdicts; spending any one opens the circuit.
    :param application_budgets: The same after failures of the application.
    :param poison_after: So many failures of one batch in the same way make it a poison batch.
    :param reset_after: A driver that made progress for this long clears the failure count.
    :param reset_batches: ... provided that it also committed this many batches.
    :param half_open_after: Try once again by itself this long after the circuit opened; ``None``
        leaves it to a person.
    :param blackouts: Times of day in which a living stream is not restarted.
    """

    first_delay: timedelta = timedelta(seconds=5)
    max_delay: timedelta = timedelta(minutes=5)
    budgets: tuple[Budget, ...] = (
        Budget(restarts=5, window=timedelta(minutes=10)),
        Budget(restarts=20, window=timedelta(hours=24)),
    )
    application_budgets: tuple[Budget, ...] = (
        Budget(restarts=3, window=timedelta(minutes=10)),
        Budget(restarts=10, window=timedelta(hours=24)),
    )
    poison_after: int = 3
    reset_after: timedelta = timedelta(minutes=10)
    reset_batches: int = 20
    half_open_after: timedelta | None = None
    blackouts: tuple[Blackout, ...] = ()

    def __post_init__(self) -> None:
        if not timedelta(0) <= self.first_delay <= self.max_delay:
            raise ValueError("A restart policy needs 0 <= first_delay <= max_delay.")
        if self.half_open_after is not None and self.half_open_after <= timedelta(0):
            raise ValueError("half_open_after must be positive, or the circuit is never open.")
        if self.poison_after < 1:
            raise ValueError("poison_after must be at least 1.")

    def bound(self, consecutive_failures: int) -> timedelta:
        """Return the longest wait before the restart after that many failures in a row."""
        if consecutive_failures <= 1:
            return timedelta(0)
        # In floating point, because a timedelta of some days doubled thirty times overflows.
        doublings = min(consecutive_failures - 2, 60)
        seconds = self.first_delay.total_seconds() * 2.0**doublings
        longest = self.max_delay.total_seconds()
        return self.max_delay if seconds >= longest else timedelta(seconds=seconds)

    def budgets_for(self, failure_class: FailureClass) -> tuple[Budget, ...]:
        """Return the budgets that a failure of a class is charged to."""
        if failure_class is FailureClass.APPLICATION:
            return self.application_budgets
        return self.budgets

    def looks_back_to(self, now: datetime) -> datetime:
        """Return the moment before which no decision counts for a budget any more."""
        budgets = self.budgets + self.application_budgets
        longest = max((budget.window for budget in budgets), default=timedelta(0))
        begin = datetime.min.replace(tzinfo=UTC)
        return begin if longest >= now - begin else now - longest

    def blackout_until(self, now: datetime) -> datetime | None:
        """Return when the blackout that holds now is over; ``None`` outside of one."""
        ends = [end for blackout in self.blackouts if (end := blackout.ends_at(now)) is not None]
        return max(ends, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as JSON; durations as seconds."""
        encoded: dict[str, Any] = encode(self)
        return encoded

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """
        Build a policy from its JSON form.

        :raises RecordError: a field is of the wrong type or out of its bounds.
        """
        return decode(cls, data, "restart policy")
