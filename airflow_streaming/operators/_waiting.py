"""How the task that keeps a stream alive waits: the trigger that watches in its place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow_streaming.core.situation import Situation
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.core.steering import Action
from airflow_streaming.triggers.stream import StreamTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """
    What a task hands to its trigger; the fields are the task's own.

    :param rollover_after: Age of the dag run at which the task is woken to end; ``None`` for never.
    """

    spec: StreamSpec
    home_conn_id: str | None
    poll_interval: timedelta
    rollover_after: timedelta | None

    def trigger(
        self,
        situation: Situation,
        *,
        lane: str,
        run_started_at: datetime | None,
        unable_to: Action | None = None,
        has_undelivered: bool = False,
    ) -> StreamTrigger:
        """
        Return the trigger.

        :param situation: As it was seen last; of another epoch the task is told.
        :param lane: The lane that is kept alive.
        :param unable_to: The step that could not be done, so that it alone is no reason to wake.
        :param has_undelivered: Alerts wait for their delivery.
        """
        seen, rollover = situation.seen, self.rollover_after
        # What was watched stays watched while the home shows less than there was.
        watched = max(seen.epoch.number if seen else 0, situation.watched or 0)
        return StreamTrigger(
            home=self.spec.home,
            stream=self.spec.name,
            home_conn_id=self.home_conn_id,
            deferred_at=datetime.now(UTC).isoformat(),
            poll_seconds=self.poll_interval.total_seconds(),
            watched=watched or None,
            run_started_at=run_started_at.isoformat() if run_started_at else None,
            rollover_seconds=rollover.total_seconds() if rollover else None,
            rules=self.spec.health.to_dict(),
            policy=self.spec.restart.to_dict(),
            blocked=unable_to is not None,
            unable_to=(unable_to or Action.BLOCKED).value,
            undelivered=has_undelivered,
            due_in_seconds=_due_in(situation),
            keeps=lane,
        )


def _due_in(situation: Situation) -> float | None:
    decision, now = situation.decision, situation.now
    if decision is None or decision.next_attempt_at is None or not decision.is_waiting(now):
        return None
    return (decision.next_attempt_at - now).total_seconds()
