"""Shared by the tasks of one cutover: the run, the engine, and their XComs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow_streaming.changes.pointers.pointer import Pointer
from airflow_streaming.exceptions import CutoverRefused, RecordError, SpecError
from airflow_streaming.model.arguments.calls import name_of
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.names import is_path_part
from airflow_streaming.model.records.cutover_table import CutoverState, CutoverTransition
from airflow_streaming.operators.common.base import ProgressLogger
from airflow_streaming.operators.common.change import ChangeTask
from airflow_streaming.operators.common.cutover_lanes import (
    DagLanes,
    by_name,
    check_together,
    usable,
)
from airflow_streaming.operators.common.form_edits import pulled
from airflow_streaming.operators.common.gate import MARKDOWN_XCOM_KEY
from airflow_streaming.operators.common.run_report import records_of, report_of_run
from airflow_streaming.options import CutoverCheck, SideBySide
from airflow_streaming.spec import StreamSpec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.changes.cutover.engine import Cutover
    from airflow_streaming.changes.cutover.engine import CutoverProgress as Progress
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.model.jobs.comparison import CompareReport
    from airflow_streaming.model.records.control import Change
    from airflow_streaming.model.records.cutover import CutoverTerms

COMPARISONS_XCOM_KEY: Final = "comparisons"
"""XCom with the newest comparison of every stream."""
S = CutoverState
_BETWEEN: Final = {S.DRAINING, S.SWITCHING, S.LIVE, S.ABORTING, S.ROLLING_BACK, S.ROLLED_BACK}
"""States in which one lane may have ended and the other not begun: no time for Airflow's queues."""
_STARTING: Final = timedelta(minutes=3)
"""Added to the grace of a stop: the driver that continues must start first."""
HISTORY_XCOM_KEY: Final = "steps"
"""XCom with the steps of the cutover so far, a line each."""


def found_cutover(home: StreamHome, report: Mapping[str, Any] | None) -> Change | None:
    """
    Return the cutover that a run began or continues, ended or not; ``None`` before that.

    :param home: Of the base lane of the stream that leads.
    :param report: The run's preflight report.
    """
    if not report:
        return None
    if report.get("resumes"):
        return next((one for one in led_by(home) if one.number == report["resumes"]), None)
    return next((one for one in led_by(home) if _request_key(home, one) == report["key"]), None)


def led_by(home: StreamHome) -> Iterator[Change]:
    """Yield the cutovers that a stream leads, newest first."""
    from airflow_streaming.model.records.control import ChangeKind  # not at dag parse

    for change in reversed(home.changes()):
        if change.what is ChangeKind.CUTOVER and home.leads(change):
            yield change


def change_of(home: StreamHome, number: int) -> tuple[Change, CutoverTerms]:
    """
    Return a cutover and its terms, by its number.

    :raises CutoverRefused: the stream leads no such cutover.
    """
    found = next((one for one in led_by(home) if one.number == number), None)
    if found is None:
        raise CutoverRefused(
            f"Change {number} is missing from the home of stream {home.name!r}. Check that the home's "
            "volume is mounted, then run this task again."
        )
    return found, home.cutover_terms(found)


def stay_in_comparing(history: Sequence[CutoverTransition]) -> int:
    """Return the step with which the newest stay in ``comparing`` began; 0 before the first."""
    stays = (one.number for one in reversed(history) if one.after is CutoverState.COMPARING)
    return next(stays, 0)


def line_of_step(step: CutoverTransition) -> str:
    return f"Step {step.number}: {words(step.before)} → {words(step.after)}: {step.reason}"


def words(name: str) -> str:
    """Return the name of a state, a way or an event as a user says it."""
    return str(name).replace("_", " ")


def _request_key(home: StreamHome, change: Change) -> str:
    try:
        return home.cutover_terms(change).key
    except RecordError:
        return ""  # the task that continues with it reports the missing part


def open_engine(
    task: CutoverTask,
    lanes: DagLanes,
    context: Context,
    memory: dict[str, Any] | None,
    complete_from: Mapping[str, datetime],
) -> Cutover:
    """
    Return the engine of one task.

    :param memory: The memory of an earlier try, or of the trigger, about earlier looks.
    :param complete_from: By stream, the event time from which a fresh green is complete.
    """
    from airflow_streaming.changes.cutover.engine import Cutover  # not at dag parse
    from airflow_streaming.changes.cutover.lanes import LANES  # not at dag parse
    from airflow_streaming.changes.handover.green_start import StoredCheckpoints  # not at dag parse
    from airflow_streaming.hooks.home import access  # not at dag parse
    from airflow_streaming.operators.common.cutover_checks import Comparing  # not at dag parse
    from airflow_streaming.services.changes import final_backup  # not at dag parse

    lanes.memory = (memory or {}).get(LANES, {})
    progress = ProgressLogger(task.log)
    return Cutover(
        lanes.leader,
        lanes,
        by=lanes.by,
        checkpoints=StoredCheckpoints(
            **access(task.stream.home, task.home_conn_id), spark=lanes.spark_of
        ),
        pointers=usable(task.pointers),
        compare=Comparing(
            lanes,
            complete_from=complete_from,
            progress=progress,
            heard=lambda report: task.heard(report, context),
        ),
        retire=lambda change, pair, blue: final_backup(
            *(lanes.home, task.open_store(), change, pair, blue),
            by=lanes.by,
            reason=change.reason,
            open_folders=task.open_folders,
            progress=ProgressLogger(task.log),
        ),
        memory=memory,
    )


def names_of(checks: Sequence[CutoverCheck]) -> tuple[str, ...]:
    """
    Return the names under which the answers of checks are kept.

    :raises SpecError: two have the same name, or one has a name that no file can have.
    """
    names = tuple(name_of(check) for check in checks)
    odd = next((name for name in names if not is_path_part(name) or names.count(name) > 1), None)
    if odd is not None:
        raise SpecError(
            f"Check {odd!r} needs a name of its own that can be a file name: define it with def, "
            "and let no two have the same name."
        )
    return names


class CutoverTask(ChangeTask):
    """
    A task of a cutover.

    :param stream: The stream as its keep-alive dag has it, or several that switch together; the
        first one leads. (templated, field by field)
    :param preflight_task_id: The task of the same run that made the report.
    :param pointers: Pointers for consumers beside the home's own pointer, in their order; by stream
        where several switch together.
    :param checks: Called with a ``SideBySide`` while the outputs are compared.
    """

    template_fields: Sequence[str] = (*ChangeTask.template_fields, "also")
    ui_color = "#cfe3f3"

    @checked
    def __init__(
        self,
        *,
        stream: StreamSpec | Sequence[StreamSpec],
        preflight_task_id: str = "",
        pointers: Sequence[Pointer] | Mapping[str, Sequence[Pointer]] = (),
        checks: Sequence[CutoverCheck] = (),
        **kwargs: Any,
    ) -> None:
        several = [stream] if isinstance(stream, StreamSpec) else list(stream)
        if not several:
            raise SpecError("A cutover needs a stream. Give its StreamSpec, or several.")
        first, *rest = several
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
        complete = {
            one["stream"]: datetime.fromisoformat(one["complete_from"])
            for one in (self.report(context) or {}).get("pairs", ())
            if one.get("complete_from")
        }
        return open_engine(self, lanes, context, memory, complete)

    def report(self, context: Context) -> Mapping[str, Any] | None:
        """Return the preflight report of this run; ``None`` before the preflight."""
        if not self.preflight_task_id:
            return None
        home = records_of(self.stream.home, self.home_conn_id, self.stream.name)
        return report_of_run(context, home, self.preflight_task_id)

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
        :raises AirflowFailException: it cannot continue, and another try does not help.
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
        """Keep the worker while an output may have no writer, in either direction."""
        is_between = progress is not None and progress.state in _BETWEEN
        return self.stream.stop_grace + _STARTING if is_between else timedelta(0)

    def heard(self, report: CompareReport, context: Context) -> None:
        """Keep a comparison; a task that waits deferred is another process later."""
        self.log.info("Compared stream %s: %s", report.stream, report.reason)
        kept = {**self._comparisons(context), report.stream: report}
        values = {stream: one.to_dict() for stream, one in kept.items()}
        context["ti"].xcom_push(key=COMPARISONS_XCOM_KEY, value=values)

    def publish(self, change: int, context: Context) -> None:
        """Leave the page on which a user sees how green stands."""
        from airflow_streaming.reports.cutover import promotion_report  # not at dag parse
        from airflow_streaming.reports.markdown import markdown  # not at dag parse

        home = self.lanes(context).home
        _, terms = change_of(home, change)
        history = home.steps(change)
        stay = stay_in_comparing(history)
        checks = home.check_results(change, stay) if stay else {}
        comparisons = list(self._comparisons(context).values())
        page = markdown(promotion_report(terms, history, checks, comparisons))
        context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=page)

    def _comparisons(self, context: Context) -> dict[str, CompareReport]:
        from airflow_streaming.model.jobs.comparison import CompareReport  # not at dag parse

        found = pulled(context, self.task_id, COMPARISONS_XCOM_KEY)
        return {stream: CompareReport.from_dict(told) for stream, told in (found or {}).items()}

    def run_checks(
        self, engine: Cutover, lanes: DagLanes, change: int, context: Context
    ) -> list[str]:
        """
        Run the author's checks that have no answer yet in this stay in ``comparing``.

        :returns: The findings, a sentence each.
        :raises CheckFailed: a check failed to run, and the next try of the task runs it again.
        """
        from airflow_streaming.operators.common.cutover_checks import (  # not at dag parse
            CheckFailed,
            answer_of,
            is_last_try,
            unanswered,
        )

        found = []
        for check in unanswered(self.checks, lanes.home, change):
            answer = answer_of(check, self._side_by_side(lanes, change, context))
            if answer.passed is None and not is_last_try(context):
                raise CheckFailed(answer.reason)
            self.log.info("%s", answer.reason)
            engine.checked(name_of(check), answer.passed, answer.reason, change=change)
            found.append(answer.reason)
        return found

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
        from airflow_streaming.triggers.change import CutoverTrigger  # not at dag parse

        _, terms = change_of(home, change)
        self.defer(
            trigger=CutoverTrigger(
                lanes=[lane for pair in terms.pairs for lane in (pair.blue, pair.green)],
                change=change,
                memory=engine.memory(),
                # Also while a user thinks: green is tended, and judged, by this task alone.
                **self.woken_by(),
            ),
            method_name="execute_complete",
        )
