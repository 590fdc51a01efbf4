"""The task that gives blue up when nobody wants it back any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.transition import Transition, state_of
from airflow_streaming.operators._cutover.run import found_cutover, words
from airflow_streaming.operators._cutover.task import CutoverTask
from airflow_streaming.triggers.cutover import CutoverTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.core.change import Change
    from airflow_streaming.home.home import StreamHome


class CutoverRetireOperator(CutoverTask):
    """
    Wait until blue need not be kept any longer, take its final backup, and free its lane.

    It waits deferred and holds no worker. The next cutover does not wait for it: it needs the lane,
    and retires blue itself.

    """

    def execute(self, context: Context) -> dict[str, Any]:
        change, left = self._look(context)
        if left is not None:
            self.log.info(
                "Blue is kept until %s UTC.", f"{datetime.now(UTC) + left:%Y-%m-%d %H:%M}"
            )
            woken = {**self.woken_by(), "wake_seconds": left.total_seconds()}
            self.defer(trigger=CutoverTrigger(change=change, **woken), method_name="on_event")
        return {"change": change}

    def on_event(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Look again: the time may be over, or somebody else has retired it."""
        return self.execute(context)

    def _look(self, context: Context) -> tuple[int, timedelta | None]:
        """Return the cutover, and for how long blue is kept; ``None`` when it is retired now."""
        with self.working():
            lanes = self.lanes(context)
            change = found_cutover(lanes.home, self.report(context))
            if change is None:
                raise AirflowSkipException("This run has begun no cutover, so nothing is kept.")
            steps = lanes.home.steps(change.number)
            left = _left(lanes.home, change, steps)
            if left is None:
                raise AirflowSkipException(f"Nothing is kept: {words(state_of(steps))}.")
            if left <= timedelta():
                reason = "Blue was kept for as long as it was asked for."
                self.engine(lanes, context).retire(reason, change.number)
                self.log.info("Blue is retired: its final backup is taken, and its lane is free.")
                return change.number, None
        return change.number, left


def _left(home: StreamHome, change: Change, steps: Sequence[Transition]) -> timedelta | None:
    """Return for how long blue is still kept; ``None`` when it is not, or not any more."""
    if state_of(steps) is not CutoverState.FINALISED:
        return None
    return steps[-1].at + home.cutover_terms(change).retain_blue - datetime.now(UTC)
