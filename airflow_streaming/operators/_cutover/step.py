"""The task that takes a cutover to one of its states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators._cutover.run import found_cutover, words
from airflow_streaming.operators._cutover.task import CutoverTask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.cutover.cutting_over import Progress
    from airflow_streaming.home.home import StreamHome

S = CutoverState

STEPS: Final = (
    *(S.STARTING, S.CATCHING_UP, S.SHADOWING, S.COMPARING, S.READY),
    *(S.LIVE, S.SOAKING, S.FINALISING, S.FINALISED),
)
"""States that a step can lead to."""

GIVEN_UP: Final = frozenset({S.ABORTING, S.ABORTED, S.ROLLING_BACK, S.ROLLED_BACK})


class CutoverStepOperator(CutoverTask):
    """
    Take a cutover to a state, whatever is missing until then.

    The first step of a run opens the change, by the preflight's report: what was approved there,
    and nothing else, is started. It fails when the cutover is given up on the way.

    A step that leads to ``ready`` ends as well where nothing is proved and a person has to say; its
    XCom ``markdown`` is the page for him.

    :param until: The state, by name, e.g. ``catching_up``, ``comparing``, ``ready``, ``soaking``.
    """

    def __init__(self, *, until: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until = state_named(until)

    def execute(self, context: Context) -> dict[str, Any]:
        with self.telling(context):
            return self._go(context, None)

    def on_event(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again, and go on."""
        with self.telling(context):
            return self._go(context, event.get("memory"))

    def _go(self, context: Context, memory: dict[str, Any] | None) -> dict[str, Any]:
        with self.working():
            change = self._open(context)
        progress = self.go_on(context, self.until, memory, change)
        self.publish(progress.change, context)
        self._check(progress)
        return {
            "change": change,
            "state": progress.state.value,
            "reason": progress.reason,
            "facts": dict(progress.facts),
        }

    def is_enough(self, progress: Progress) -> bool:
        """Tell whether this step has nothing more to do."""
        return progress.is_there or (self.until is S.READY and progress.state is S.HELD)

    def _check(self, progress: Progress) -> None:
        if progress.state in GIVEN_UP:
            raise AirflowFailException(
                f"The cutover of stream {self.stream.name!r} is given up "
                f"({words(progress.state)}): {progress.reason}"
            )

    def _open(self, context: Context) -> int:
        from airflow_streaming.operators._cutover.beginning import begin  # not at dag parse

        report = self.report(context)
        if report is None:
            raise AirflowFailException(
                f"Task {self.preflight_task_id!r} has left no report in this run, and nothing is "
                "begun without one. Run the whole dag again."
            )
        lanes = self.lanes(context)
        found = found_cutover(lanes.home, report)
        if found is None:
            self._lay_pointers(lanes.home)
            found = begin(self.engine(lanes, context), lanes, report)
            self.log.info("Change %d is open: %s", found.number, found.reason)
        self.link_to_lanes(lanes.home, found.number, context)
        return found.number

    def _lay_pointers(self, home: StreamHome) -> None:
        from airflow_streaming.operators._cutover.engine import usable  # not at dag parse
        from airflow_streaming.operators._cutover.laying import lay  # not at dag parse

        for name in lay(usable(self.pointers), home):
            self.log.info("Pointer %s leads to what is live now.", name)


def state_named(name: str) -> CutoverState:
    """
    Return a state that a step can lead to, by its name.

    :raises SpecError: there is none of that name.
    """
    if name not in STEPS:
        raise SpecError(f"until is {name!r}; give {', '.join(STEPS)}.")
    return CutoverState(name)
