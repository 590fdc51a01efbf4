"""The task that ends a cutover: green stays, or blue is back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.transition import state_of
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.operators._cutover.run import found_cutover, words
from airflow_streaming.operators._cutover.task import CutoverTask
from airflow_streaming.operators._upgrade.run import (
    ENDED_XCOM_KEY,
    WRONG_XCOM_KEY,
    first_told,
    pulled,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.core.change import Change
    from airflow_streaming.cutover.cutting_over import Cutover, Progress
    from airflow_streaming.operators._cutover.lanes import DagLanes

_WENT_WRONG: Final = "A task of the cutover came to no good end; its log says why."

_BECAME: Final = {
    CutoverState.ABORTED: "was given up before the switch, and blue is as it was",
    CutoverState.ROLLED_BACK: "was rolled back, and blue is live again",
}


class CutoverSettleOperator(CutoverTask):
    """
    Bring a cutover to its end, whatever became of the tasks before it.

    It succeeds when green stays, is skipped when nothing was begun on purpose, and fails, with what
    went wrong, when blue is live. A cutover whose tasks came to no good end is given up: before the
    switch blue is left as it is, after it consumers are led back to it.

    :param approve_task_id: The task in which a person was asked whether it may begin.
    :param step_task_ids: The steps, the last one last.
    """

    def __init__(
        self,
        *,
        approve_task_id: str | None = None,
        step_task_ids: Sequence[str] = (),
        trigger_rule: str = TriggerRule.ALL_DONE,
        **kwargs: Any,
    ) -> None:
        super().__init__(trigger_rule=trigger_rule, **kwargs)
        self.approve_task_id = approve_task_id
        self.step_task_ids = tuple(step_task_ids)

    def execute(self, context: Context) -> dict[str, Any]:
        self._skip_what_was_not_begun(context)
        with self.working():
            lanes = self.lanes(context)
            change = self._found(context, lanes)
            if change is None:
                raise AirflowFailException(
                    f"The cutover of stream {self.stream.name!r} ended before anything was begun; "
                    "the stream is as it was. The log of the task that failed says why."
                )
            self.link_to_lanes(lanes.home, change.number, context)
            if lanes.home.change_end(change.number) is None:
                self._give_up_what_failed(lanes, change, context)
        return self._end(context, None)

    def on_event(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again; what was said stands in the stream's home."""
        return self._end(context, event.get("memory"))

    def _give_up_what_failed(self, lanes: DagLanes, change: Change, context: Context) -> None:
        wrong = self._what_is_wrong(context)
        if not wrong:
            return
        engine = self.engine(lanes, context)
        state = state_of(lanes.home.steps(change.number))
        try:
            self._take_back(engine, state, wrong, change.number)
        except CutoverRefused as err:
            # A person was faster, or the point of no return lies behind: then only forward.
            self.log.info("It is not taken back: %s What went wrong: %s", err, wrong)

    @staticmethod
    def _take_back(engine: Cutover, state: CutoverState, wrong: str, change: int) -> None:
        if state.can_roll_back:
            engine.roll_back(wrong, change)
        elif state.can_abort:
            engine.abort(wrong, change)

    def _what_is_wrong(self, context: Context) -> str:
        if self.step_task_ids and pulled(context, self.step_task_ids[-1], "return_value"):
            return ""
        told = first_told(context, tuple(reversed(self.step_task_ids)), WRONG_XCOM_KEY)
        return told or _WENT_WRONG

    def _end(self, context: Context, memory: dict[str, Any] | None) -> dict[str, Any]:
        with self.working():
            change = self._found(context, self.lanes(context))
        if change is None:
            raise AirflowFailException(
                f"The change of this run is no longer in the home of stream {self.stream.name!r}. "
                "Bring the home back, and run this task again."
            )
        progress = self.go_on(context, CutoverState.FINALISED, memory, change.number)
        if progress.state not in (CutoverState.FINALISED, CutoverState.RETIRED):
            raise AirflowFailException(self._sentence(progress))
        self.log.info(
            "Green stays. Write the same into the dag, or it goes on proposing the old version. "
            "Blue is stopped and can be restarted until it is retired."
        )
        return {"state": progress.state.value, "change": change.number, **progress.facts}

    def _sentence(self, progress: Progress) -> str:
        became = _BECAME.get(progress.state, f"stands at {words(progress.state)}")
        return f"The cutover of stream {self.stream.name!r} {became}: {progress.reason}"

    def _found(self, context: Context, lanes: DagLanes) -> Change | None:
        return found_cutover(lanes.home, self.report(context))

    def _skip_what_was_not_begun(self, context: Context) -> None:
        askers = (self.preflight_task_id, self.approve_task_id)
        reason = first_told(context, askers, ENDED_XCOM_KEY)
        if reason:
            raise AirflowSkipException(reason)
