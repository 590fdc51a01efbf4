"""What the tasks of one cutover have in common: the engine, how far they take it, what they tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow_streaming.core.cutover.comparing.page import as_markdown
from airflow_streaming.core.cutover.planning.promotion_page import promotion_page
from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.operators._change import ChangeTask
from airflow_streaming.operators._cutover.checking import (
    CheckFailed,
    CutoverCheck,
    SideBySide,
    answer_of,
    is_last_try,
    names_of,
    unanswered,
)
from airflow_streaming.operators._cutover.lanes import DagLanes
from airflow_streaming.operators._cutover.run import (
    change_of,
    line_of_step,
    stay_in_comparing,
    words,
)
from airflow_streaming.operators._cutover.together import by_name, check_together
from airflow_streaming.operators._gate.common import MARKDOWN_XCOM_KEY, REPORT_XCOM_KEY
from airflow_streaming.operators._upgrade.check import name_of
from airflow_streaming.operators._upgrade.run import pulled
from airflow_streaming.triggers.cutover import CutoverTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.core.cutover.comparing.report import CompareReport
    from airflow_streaming.cutover.cutting_over import Cutover, Progress
    from airflow_streaming.cutover.pointers.port import Pointer
    from airflow_streaming.home.home import StreamHome

COMPARISONS_XCOM_KEY: Final = "comparisons"
"""XCom with the page of the newest comparison of every stream."""

S = CutoverState
_BETWEEN: Final = {S.DRAINING, S.SWITCHING, S.LIVE, S.ABORTING, S.ROLLING_BACK, S.ROLLED_BACK}
"""States in which one lane may have ended and the other not begun: no time for Airflow's queues."""

_STARTING: Final = timedelta(minutes=3)
"""Added to the grace of a stop: the driver that goes on has to start first."""

HISTORY_XCOM_KEY: Final = "steps"
"""XCom with the steps of the cutover so far, a line each."""


class CutoverTask(ChangeTask):
    """
    A task of a cutover.

    :param stream: The stream as its keep-alive dag has it, or several that switch together; the
        first one leads. (templated, field by field)
    :param preflight_task_id: The task of the same run that made the report.
    :param pointers: What consumers follow beside the home's own pointer, in their order; by stream
        where several switch together.
    :param checks: Called with a ``SideBySide`` while the outputs are compared.
    """

    template_fields: Sequence[str] = (*ChangeTask.template_fields, "also")
    ui_color = "#cfe3f3"

    def __init__(
        self,
        *,
        stream: StreamSpec | Sequence[StreamSpec],
        preflight_task_id: str = "",
        pointers: Sequence[Pointer] | Mapping[str, Sequence[Pointer]] = (),
        checks: Sequence[CutoverCheck] = (),
        **kwargs: Any,
    ) -> None:
        first, *rest = [stream] if isinstance(stream, StreamSpec) else list(stream)
        super().__init__(stream=first, **kwargs)
        self.also = tuple(rest)
        self.preflight_task_id = preflight_task_id
        self.pointers = by_name(pointers, first.name)
        self.checks = tuple(checks)
        names_of(self.checks)
        check_together(self.streams)

    @property
    def streams(self) -> tuple[StreamSpec, ...]:
        """Return all streams; the first one leads."""
        return (self.stream, *self.also)

    def lanes(self, context: Context) -> DagLanes:
        """
        Return the lanes of all streams, as they are to become.

        :raises AirflowFailException: the edits, or a spec, cannot run.
        """
        return DagLanes({one.name: self.hook_of(one, context) for one in self.streams})

    def engine(
        self, lanes: DagLanes, context: Context, memory: dict[str, Any] | None = None
    ) -> Cutover:
        """Return who cuts the streams over."""
        from airflow_streaming.operators._cutover.engine import open_engine  # not at dag parse

        complete = {
            one["stream"]: datetime.fromisoformat(one["complete_from"])
            for one in (self.report(context) or {}).get("pairs", ())
            if one.get("complete_from")
        }
        return open_engine(self, lanes, context, memory, complete)

    def report(self, context: Context) -> dict[str, Any] | None:
        """Return what the preflight of this run has left; ``None`` before it has."""
        if not self.preflight_task_id:
            return None
        found: dict[str, Any] | None = pulled(context, self.preflight_task_id, REPORT_XCOM_KEY)
        return found

    def go_on(
        self,
        context: Context,
        until: CutoverState,
        memory: dict[str, Any] | None,
        change: int,
    ) -> Progress:
        """
        Take a cutover on to a state or its end; wait in the worker first, then deferred.

        :param change: The cutover; no other one is touched.
        :raises AirflowFailException: it cannot go on, and another try does not help.
        """
        with self.working():
            lanes = self.lanes(context)
            told = len(lanes.home.steps(change))
            engine = self.engine(lanes, context, memory)
            progress = self.waiting_here(
                lambda: self._advance(engine, lanes, until, change, context)
            )
            self._tell(lanes.home, change, told, context)
        if progress is None or not self.is_enough(progress):
            self._wait(lanes.home, engine, change)
        self.log.info("State %s: %s", words(progress.state), progress.reason)
        return progress

    def is_enough(self, progress: Progress) -> bool:
        """Tell whether this task has nothing more to do."""
        return progress.is_there

    def more_patience(self, progress: Any) -> timedelta:
        """Keep the worker while an output may have nobody who writes it, in either direction."""
        is_between = progress is not None and progress.state in _BETWEEN
        return self.stream.stop_grace + _STARTING if is_between else timedelta(0)

    def heard(self, report: CompareReport, context: Context) -> None:
        """Keep the page of a comparison; those that wait deferred are another process later."""
        self.log.info("Compared stream %s: %s", report.stream, report.reason)
        pages = {**self._comparisons(context), report.stream: as_markdown(report, level=3)}
        context["ti"].xcom_push(key=COMPARISONS_XCOM_KEY, value=pages)

    def publish(self, change: int, context: Context) -> None:
        """Leave the page on which a person sees how green stands."""
        home = self.lanes(context).home
        _, terms = change_of(home, change)
        history = home.steps(change)
        stay = stay_in_comparing(history)
        checks = home.check_results(change, stay) if stay else {}
        comparisons = list(self._comparisons(context).values())
        page = promotion_page(terms, history, checks, comparisons)
        context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=page)

    def _comparisons(self, context: Context) -> dict[str, str]:
        found = pulled(context, self.task_id, COMPARISONS_XCOM_KEY)
        return dict(found or {})

    def run_checks(
        self, engine: Cutover, lanes: DagLanes, change: int, context: Context
    ) -> list[str]:
        """
        Run the author's checks that this stay in ``comparing`` has no answer of yet.

        :returns: What was found, a sentence each.
        :raises CheckFailed: one came to no end, and the next try of the task asks it again.
        """
        found = []
        for check in unanswered(self.checks, lanes.home, change):
            answer = answer_of(check, self._side_by_side(lanes, change, context))
            if answer.passed is None and not is_last_try(context):
                raise CheckFailed(answer.reason)
            self.log.info("%s", answer.reason)
            engine.checked(name_of(check), answer.passed, answer.reason, change=change)
            found.append(answer.reason)
        return found

    def link_to_lanes(self, home: StreamHome, change: int, context: Context) -> None:
        """Let the task's links lead to green's driver while it runs beside blue."""
        _, terms = change_of(home, change)
        self.link_to_stream(context, terms.leader.green)

    def _advance(
        self,
        engine: Cutover,
        lanes: DagLanes,
        until: CutoverState,
        change: int,
        context: Context,
    ) -> Progress:
        progress = engine.advance(until, change)
        if progress.is_there or not self.checks:
            return progress
        if not self.run_checks(engine, lanes, change, context):
            return progress
        return engine.advance(until, change)

    def _side_by_side(self, lanes: DagLanes, change: int, context: Context) -> Iterator[SideBySide]:
        begun, terms = change_of(lanes.home, change)
        for pair in terms.pairs:
            yield SideBySide(
                stream=pair.stream,
                home=self.stream.home,
                change=change,
                blue=lanes.open(pair.stream, pair.blue).home.deployment(pair.blue_deployment),
                green=pair.shadow,
                begun_at=begun.at,
                context=context,
            )

    def _tell(self, home: StreamHome, change: int, told: int, context: Context) -> None:
        steps = home.steps(change)
        for step in steps[told:]:
            self.log.info("%s", line_of_step(step))
        lines = [line_of_step(step) for step in steps]
        context["ti"].xcom_push(key=HISTORY_XCOM_KEY, value=lines)

    def _wait(self, home: StreamHome, engine: Cutover, change: int) -> NoReturn:
        _, terms = change_of(home, change)
        self.defer(
            trigger=CutoverTrigger(
                lanes=[lane for pair in terms.pairs for lane in (pair.blue, pair.green)],
                change=change,
                memory=engine.memory(),
                # Also while a person thinks: green is tended, and judged, by this task alone.
                **self.woken_by(),
            ),
            method_name="on_event",
        )
