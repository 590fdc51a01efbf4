"""The task that runs the author's checks on a green beside blue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.transition import state_of
from airflow_streaming.operators._cutover.run import found_cutover
from airflow_streaming.operators._cutover.task import CutoverTask

if TYPE_CHECKING:
    from airflow.sdk import Context


class CutoverCheckOperator(CutoverTask):
    """
    Run the author's checks on what green has written beside blue.

    What they say is recorded with the cutover, and it goes on or is given up by that. Where green
    has to begin again later, the task that waits for it runs them once more.

    """

    def execute(self, context: Context) -> list[str]:
        with self.working():
            lanes = self.lanes(context)
            change = found_cutover(lanes.home, self.report(context))
            if change is None:
                return []
            self.link_to_lanes(lanes.home, change.number, context)
            if state_of(lanes.home.steps(change.number)) is not CutoverState.COMPARING:
                self.log.info("Green is not being compared now; whoever waits for it runs them.")
                return []
            return self.run_checks(self.engine(lanes, context), lanes, change.number, context)
