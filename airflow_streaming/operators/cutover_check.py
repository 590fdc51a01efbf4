"""The task that runs the author's checks on a green beside blue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverState
from airflow_streaming.operators.common.cutover import CutoverTask, found_cutover

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
            if CUTOVER.state_of(lanes.home.steps(change.number)) is not CutoverState.COMPARING:
                self.log.info(
                    'Checks skipped: the cutover is not in "comparing". The task waiting '
                    "for the comparison will run them."
                )
                return []
            return self.run_checks(self.engine(lanes, context), lanes, change.number, context)
