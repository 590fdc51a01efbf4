"""What an upgrade writes down: the stages it reaches, its end, and a line in the timeline for each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from airflow_streaming.core.change import Change, ChangeEnd, ChangeOutcome
from airflow_streaming.core.control import Event, EventKind
from airflow_streaming.core.upgrade.stage import Stage, StageReached
from airflow_streaming.core.upgrade.state import facts_of
from airflow_streaming.home.home import StreamHome

log: Final = logging.getLogger(__name__)

_OUTCOMES: Final = {
    Stage.KEPT: ChangeOutcome.DONE,
    Stage.ROLLED_BACK: ChangeOutcome.ROLLED_BACK,
    Stage.ABORTED: ChangeOutcome.ABANDONED,
}


class Recorder:
    """
    Writes down how far an upgrade has come.

    :param by: Who acts, for the records.
    :param now: The time of day.
    """

    def __init__(self, home: StreamHome, *, by: str, now: Callable[[], datetime]) -> None:
        self._home, self._by, self._now = home, by, now

    def reach(
        self, change: Change, stage: Stage, reason: str, facts: Mapping[str, str] | None = None
    ) -> StageReached:
        """
        Record a stage; return the record that counts.

        It tells of another stage when somebody has decided otherwise first.
        """
        asked = StageReached(
            change=change.number,
            stage=stage,
            at=self._now(),
            by=self._by,
            reason=reason,
            facts=dict(facts or {}),
        )
        counts = self._home.reach(asked)
        if counts == asked:
            self._tell(change, f"{stage}. {reason}", asked.facts)
        return counts

    def end(self, change: Change, reached: Mapping[Stage, StageReached]) -> None:
        """Close the change, by the end that it has reached."""
        stage = next(one for one in _OUTCOMES if one in reached)
        facts = facts_of(reached)
        end = ChangeEnd(
            number=change.number,
            outcome=_OUTCOMES[stage],
            by=self._by,
            reason=reached[stage].reason,
            at=self._now(),
            backup_before=facts.get("boundary") or facts.get("backup", ""),
        )
        if self._home.end_change(end) == end:
            self._tell(change, f"{end.outcome}. {end.reason}", {})

    def _tell(self, change: Change, message: str, facts: Mapping[str, str]) -> None:
        told = f"Upgrade to deployment {change.deployment} (change {change.number}): {message}"
        log.info("%s", told)
        self._home.add_event(
            Event(
                event=EventKind.UPGRADE,
                at=self._now(),
                by=self._by,
                message=told,
                facts={"change": str(change.number), **facts},
            )
        )
