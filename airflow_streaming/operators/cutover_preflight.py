"""The operator that examines a cutover before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.changes.cutover.plan import CutoverPlan, CutoverPreflight, check_format
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.model.arguments.accepted import (
    STEPS_BACK,
    accepted_codes,
    check_accepted,
)
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.arguments.terms import CompareTerms, ReadyTerms, SoakTerms
from airflow_streaming.model.codec import encode
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverState
from airflow_streaming.operators.common.base import run_key
from airflow_streaming.operators.common.checkpoint import truth
from airflow_streaming.operators.common.cutover import (
    CutoverTask,
    found_cutover,
    led_by,
    names_of,
    words,
)
from airflow_streaming.operators.common.form_edits import (
    ENDED_XCOM_KEY,
    bounded,
    choice_of,
    hours,
    is_asked,
)
from airflow_streaming.operators.common.gate import (
    MARKDOWN_XCOM_KEY,
    REPORT_XCOM_KEY,
    asked,
    fail_if_refused,
    log_decision,
    log_report,
)
from airflow_streaming.operators.common.run_report import push_recorded
from airflow_streaming.operators.upgrade_preflight import habit_of
from airflow_streaming.options import Approval, CutoverApproval, GreenStart

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.changes.cutover.begin import PlanRequest
    from airflow_streaming.changes.cutover.lanes import Candidate
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.model.arguments.form_refusals import Refusal, RunValue
    from airflow_streaming.model.records.control import Change
    from airflow_streaming.operators.common.cutover_lanes import DagLanes
    from airflow_streaming.reports.report import Words

DECIDED: Final = frozenset(
    {CutoverState.ABORTING, CutoverState.ROLLING_BACK, CutoverState.FINALIZING}
)
"""States in which a cutover only needs to be brought to its end."""


def decided_cutover(home: StreamHome) -> Change | None:
    """Return the open cutover that only needs to be brought to its end; ``None`` without one."""
    change = home.unfinished_change()
    if change is None or not home.leads(change):
        return None
    return change if CUTOVER.state_of(home.steps(change.number)) in DECIDED else None


def check_is_new(home: StreamHome, key: str) -> None:
    """
    Do nothing for a run that has not cut the stream over already.

    :param key: Names the run's wish.
    :raises AirflowFailException: it was cleared after its cutover had ended, and would only tell
        the end.
    """
    change = found_cutover(home, {"key": key})
    end = None if change is None else home.change_end(change.number)
    if end is not None:
        raise AirflowFailException(
            f"This run has cut stream {home.name!r} over already: change {end.number} has ended "
            f"({words(end.outcome)}): {end.reason} Start a new run."
        )


def open_cutover(
    lanes: DagLanes, candidates: Sequence[Candidate], way: SwitchMethod
) -> Change | None:
    """
    Return the open cutover, which must be the proposed one; ``None`` without any.

    :raises AirflowFailException: something else is open in one of the lanes.
    """
    for candidate in candidates:
        _check_nothing_else(candidate, lanes)
    home = lanes.home
    change = home.unfinished_change()
    if change is None:
        return None
    if _is_this(change, home, candidates, way):
        return change
    raise AirflowFailException(
        f"Change {change.number} of stream {home.name!r} is another cutover, and it is open "
        f"({words(CUTOVER.state_of(home.steps(change.number)))}): {change.reason} Only one can be open at a time. "
        "Finish it first; 'airflow-streaming cutover status' shows its progress."
    )


def what_is_given_up(home: StreamHome) -> Words:
    """Return a warning about an earlier blue that a new cutover retires; empty without one."""
    from airflow_streaming.reports.report import strong  # not at dag parse

    change = next(led_by(home), None)
    if change is None or CUTOVER.state_of(home.steps(change.number)) is not CutoverState.FINALIZED:
        return ""
    terms = home.cutover_terms(change)
    kept = ", ".join(f"{pair.blue} (deployment {pair.blue_deployment})" for pair in terms.pairs)
    warning = strong(f"The blue of cutover {change.number} is still kept: {kept}.")
    cost = (
        "it takes blue's final backup first; rolling back to that blue is not possible afterwards."
    )
    return warning, f" This cutover needs its lane, so {cost}"


def _check_nothing_else(candidate: Candidate, lanes: DagLanes) -> None:
    for lane in (candidate.blue.name, candidate.green):
        home = lanes.hook(lane).lane(lane).home
        change = home.unfinished_change()
        if change is None or _is_ours(change, lanes.home):
            continue
        raise AirflowFailException(
            f"Change {change.number} ({change.what}) of {lane!r} is open: {change.reason} Only one can be "
            "open at a time. Finish it first; 'airflow-streaming status' shows its progress."
        )


def _is_ours(change: Change, base: StreamHome) -> bool:
    """Tell whether a change is the open cutover that this stream leads, or a guest of it."""
    ours = base.unfinished_change()
    if ours is None or not base.leads(ours):
        return False
    return change == ours or change.leader == f"{base.name}/{ours.number}"


def _is_this(
    change: Change, home: StreamHome, candidates: Sequence[Candidate], way: SwitchMethod
) -> bool:
    from airflow_streaming.changes.cutover.lanes import is_proposed  # not at dag parse

    terms = home.cutover_terms(change)
    return terms.way is way and is_proposed(terms.pairs, candidates)


class CutoverPreflightOperator(CutoverTask):
    """
    Run the gates of a cutover and check both ways, before any change.

    The task changes nothing, except that it first finishes an earlier cutover that was decided and
    whose run is gone. It fails when the gates do not allow the cutover. The return value is the
    decision. The next tasks read XCom ``report``; ``markdown`` is the page for the approver, which
    is in the log as well.

    :param way: ``parallel`` or ``handover``. (templated)
    :param start: Checkpoint of green: ``fresh``, ``cloned``, ``carried``, or ``by_gate`` for the
        gates' choice. (templated)
    :param replay_from: From when a fresh green reads, ISO 8601; computed when empty. (templated)
    :param ready: Conditions for green before it may become live.
    :param compare: How the outputs of which streams are compared; not at all when empty.
    :param soak: Conditions for green after the switch.
    :param soak_minutes: The bound of a form: replaces ``soak.at_most`` unless it is empty.
        (templated)
    :param approval: ``switch``: ``ask`` (default) a user before the switch, or ``auto``; ``end``:
        ``auto`` (default): a good soak is the point of no return, or ``ask`` for a user's word.
        (templated)
    :param retain_blue: How long blue's checkpoint and output are kept after that.
    :param retain_hours: The same in hours, from a form; ``retain_blue`` when empty. (templated)
    :param keeps_blue_running: Parallel outputs only: blue runs on through the soak.
    :param deadlines: How long a state may last, by its name.
    :param sink_habits: Behavior of a sink for a batch id that it has seen, by the query's name.
    :param accept: Codes of steps back from the live deployment that are accepted. (templated)
    :param dry_run: Only check and report. (templated)
    """

    template_fields: Sequence[str] = (
        *CutoverTask.template_fields,
        *("way", "start", "replay_from", "soak_minutes"),
        *("approval", "retain_hours", "accept", "is_dry_run"),
    )

    @checked
    def __init__(
        self,
        *,
        way: str = "parallel",
        start: str = "by_gate",
        replay_from: str = "",
        ready: ReadyTerms | None = None,
        compare: Sequence[CompareTerms] = (),
        soak: SoakTerms | None = None,
        soak_minutes: float | str | None = None,
        approval: CutoverApproval | str | None = None,
        retain_blue: timedelta = timedelta(days=1),
        retain_hours: float | str | None = None,
        keeps_blue_running: bool = True,
        deadlines: Mapping[str, timedelta] | None = None,
        sink_habits: Mapping[str, str] | None = None,
        accept: Sequence[str] | str = (),
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.way, self.start, self.replay_from = way, start, replay_from
        self.soak_minutes = soak_minutes
        self.approval = approval
        self.retain_hours = retain_hours
        check_accepted(accept, STEPS_BACK)
        self.accept = accept
        # BaseOperator has a method called dry_run.
        self.is_dry_run = dry_run
        self.sink_habits = {query: habit_of(name) for query, name in (sink_habits or {}).items()}
        self.course = CutoverPlan(
            ready=ready or ReadyTerms(),
            soak=soak or SoakTerms(),
            compare=tuple(compare),
            keeps_blue_running=keeps_blue_running,
            retain_blue=retain_blue,
            deadlines=dict(deadlines or {}),
            pointers={name: pointer.is_atomic for name, pointer in self.pointers.items()},
            checks=names_of(self.checks),
            stop_grace=self.stream.stop_grace,
        )
        self.course.check(tuple(one.name for one in self.streams))

    def execute(self, context: Context) -> str:
        return asked(lambda: self._execute(context))

    def _execute(self, context: Context) -> str:
        with self.working():
            lanes = self.lanes(context)
            self._carry_out(lanes, context)
            check_is_new(lanes.home, run_key(context))
            candidates = lanes.candidates()
            change = open_cutover(lanes, candidates, choice_of(self.way, "way", SwitchMethod))
            if change is not None:
                return self._go_on_with(change, lanes.home, context)
            for terms in self.course.compare:
                blues = (one.blue for one in candidates if one.stream == terms.stream)
                check_format(terms, [plan for blue in blues for plan in blue.newest_plans()])
            found = self._look(candidates)
            self._tell_found(found, lanes.home, context)
        fail_if_refused(found.deciding, "not_allowed", what=f"The cutover of {self.stream.name!r}")
        return found.decision.value

    def _carry_out(self, lanes: DagLanes, context: Context) -> None:
        """Finish an earlier cutover that was decided and whose run is gone."""
        change = decided_cutover(lanes.home)
        if change is None or truth(self.is_dry_run, "dry_run"):
            return
        self.log.info("Finishing change %d first: %s", change.number, change.reason)
        engine = self.engine(lanes, context)
        progress = self.waiting_here(lambda: engine.advance(CutoverState.FINALIZED, change.number))
        if progress is None or not progress.is_there:
            # Another try helps, so the task may retry.
            waiting = "" if progress is None else progress.waiting
            raise StreamingError(
                f"Change {change.number} of stream {self.stream.name!r} must finish first. {waiting}".rstrip()
            )

    def _go_on_with(self, change: Change, home: StreamHome, context: Context) -> str:
        """Let this run finish a cutover that an earlier one has begun; a dry run leaves it alone."""
        note = f"Change {change.number} is this cutover, started by {change.by}."
        if truth(self.is_dry_run, "dry_run"):
            ended = f"{note} It is not finished; this was a dry run and left it alone."
            context["ti"].xcom_push(key=ENDED_XCOM_KEY, value=ended)
            raise AirflowSkipException(ended)
        note = f"{note} This run continues it."
        self.log.info("%s", note)
        report = {"resumes": change.number}
        push_recorded(context, home, REPORT_XCOM_KEY, report)
        context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=note)
        return "allowed"

    def _look(self, candidates: Sequence[Candidate]) -> CutoverPreflight:
        from airflow_streaming.changes.cutover.begin import plan_pair  # not at dag parse
        from airflow_streaming.hooks.home import access_options
        from airflow_streaming.operators.common.base import ProgressLogger
        from airflow_streaming.spark_jobs.shared_spark import SharedSpark

        request = self._request()
        options = access_options(self.stream.home, self.home_conn_id)
        told = ProgressLogger(self.log)
        with SharedSpark() as spark:
            pairs = [
                plan_pair(one, request, storage_options=options, progress=told, spark=spark)
                for one in candidates
            ]
        return CutoverPreflight(way=request.way, pairs=tuple(pairs))

    def _refused(self, given: Sequence[RunValue]) -> list[Refusal]:
        # A cutover has none of the codes that only an author accepts. It names its own codes itself.
        return super()._refused([one for one in given if one.field != "accept"])

    def _request(self) -> PlanRequest:
        from airflow_streaming.changes.cutover.begin import PlanRequest  # not at dag parse

        start = choice_of(self.start or GreenStart.BY_GATE.value, "start", GreenStart)
        return PlanRequest(
            way=choice_of(self.way, "way", SwitchMethod),
            start=None if start is GreenStart.BY_GATE else StartWay(start.value),
            replay_from=(self.replay_from or "").strip(),
            habits=self.sink_habits,
            accepted=accepted_codes(self.accept, STEPS_BACK),
            compare=self.course.compare,
        )

    def asked_course(self) -> CutoverPlan:
        """
        Return the course with the values of the form.

        :raises SpecError: a value is wrong.
        """
        course = self.course
        return replace(
            course,
            soak=bounded(course.soak, self.soak_minutes),
            promotes_by_itself=not is_asked(self.approval, "switch", Approval.ASK),
            finalizes_by_itself=not is_asked(self.approval, "end", Approval.AUTO),
            retain_blue=hours(self.retain_hours, "retain_hours", course.retain_blue),
        )

    def _tell_found(self, found: CutoverPreflight, home: StreamHome, context: Context) -> None:
        from airflow_streaming.reports.cutover import cutover_report  # not at dag parse
        from airflow_streaming.reports.markdown import markdown  # not at dag parse

        log_decision(found.decision, found.deciding.findings, self.log)
        course = self.asked_course()
        report = {**found.to_dict(), "course": encode(course), "key": run_key(context)}
        page = cutover_report(found, course, what_is_given_up(home))
        push_recorded(context, home, REPORT_XCOM_KEY, report)
        context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=markdown(page))
        # A dry run asks for no approval, so no other page shows it.
        log_report(page, self.log)
