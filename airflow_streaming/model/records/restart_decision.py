"""The decision about a failed epoch: restart it, and when, or give up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Self

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.durations import CLOCKS_DIFFER
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.wire import Record


class RestartAction(StrEnum):
    """The action after an epoch has ended by failure."""

    RESTART = "restart"
    GIVE_UP = "give_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    An epoch that ended unrequested, or that a verdict stopped.

    :param kind: The kind of failure.
    :param signature: Equal for failures that look the same; ``None`` without a message.
    :param query: The query that failed.
    :param offsets: Source offsets of that batch.
    :param progressed_for: Time between the driver's first and last progress, by the driver's clock.
    :param batches: Batches the epoch committed.
    :param remedy: The next step; empty for the remedy of its kind.
    :param retryable: False when the same attempt can only fail the same way.
    :param trial: The epoch was the trial of a half-open circuit.
    :param loss_at: When a source removes data that the stream has not read, by the driver's clock.
    """

    epoch: int
    reason: str
    kind: FailureKind = FailureKind.UNKNOWN
    signature: str | None = None
    query: str | None = None
    batch_id: int | None = None
    offsets: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    remedy: str = ""
    progressed_for: timedelta = timedelta(0)
    batches: int = 0
    retryable: bool = True
    trial: bool = False
    loss_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDecision(Record):
    """
    The only decision about a failed epoch, recorded before it is acted on.

    :param epoch: The epoch that ended.
    :param consecutive_failures: Failures in a row without healthy progress, this one included.
    :param next_attempt_at: When the restart is due; ``None`` if it will not be restarted.
    :param backing_off: The restart waits.
    :param failure_kind: The kind of failure; ``signature``, ``query``, ``batch_id`` and ``offsets``
        are the failure's own.
    :param remedy: The user's next step, where only a user can act.
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
            raise SpecError("A restart needs the time of its next attempt; giving up has none.")

    def is_waiting(self, now: datetime) -> bool:
        """Tell whether the restart is still to come."""
        if self.next_attempt_at is None or now >= self.next_attempt_at:
            return False
        # Decided in the future? Some host's clock is wrong, and the wait might last for years.
        return self.decided_at - now < CLOCKS_DIFFER

    @classmethod
    def of(
        cls,
        failure: Failure,
        *,
        now: datetime,
        failures: int,
        delay: timedelta,
        obstacle: str | None,
    ) -> Self:
        """
        Decide to restart after ``delay``, or to open the circuit.

        :param obstacle: Why no restart helps, in words; ``None`` where one may.
        """
        gives_up = obstacle is not None
        return cls(
            epoch=failure.epoch,
            action=RestartAction.GIVE_UP if gives_up else RestartAction.RESTART,
            decided_at=now,
            next_attempt_at=None if gives_up else now + delay,
            backing_off=not gives_up and delay > timedelta(0),
            consecutive_failures=failures,
            reason=f"{failure.reason} {obstacle}" if gives_up else failure.reason,
            failure_kind=failure.kind,
            signature=failure.signature,
            query=failure.query,
            batch_id=failure.batch_id,
            offsets=failure.offsets,
            remedy=(failure.remedy or failure.kind.remedy) if gives_up else "",
        )
