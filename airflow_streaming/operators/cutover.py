"""The operators of a cutover: approve, begin, step, check, finish, retire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.changes.answers import REFUSAL, Answer, Settled, command_settled
from airflow_streaming.exceptions import CutoverRefused, SpecError
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.durations import age_of
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverCommand,
    CutoverState,
    CutoverTransition,
)
from airflow_streaming.model.wire import decode
from airflow_streaming.operators.common.base import actor_of, who
from airflow_streaming.operators.common.cutover import CutoverTask, found_cutover, led_by, words
from airflow_streaming.operators.common.form_edits import WRONG_XCOM_KEY, first_told, pulled
from airflow_streaming.operators.common.run_report import report_of_run
from airflow_streaming.operators.common.upgrade import StreamApprovalOperator, answered_by

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.changes.cutover.engine import Cutover
    from airflow_streaming.changes.cutover.engine import CutoverProgress as Progress
    from airflow_streaming.changes.cutover.lanes import Candidate
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.model.records.control import Change
    from airflow_streaming.model.records.cutover import Pair
    from airflow_streaming.operators.common.cutover_lanes import DagLanes
    from airflow_streaming.triggers.question import CommandQuestionTrigger

PROMOTE: Final = CutoverCommand.PROMOTE
KEEP: Final = CutoverCommand.KEEP
_IN: Final = {
    PROMOTE: (CutoverState.READY, CutoverState.HELD),
    KEEP: (CutoverState.LIVE, CutoverState.SOAKING),
}
"""States in which each word is accepted."""

S = CutoverState
STEPS: Final = (
    *(S.STARTING, S.CATCHING_UP, S.SHADOWING, S.COMPARING, S.READY),
    *(S.LIVE, S.SOAKING, S.FINALIZING, S.FINALIZED),
)
"""States that a step can lead to."""
GIVEN_UP: Final = frozenset({S.ABORTING, S.ABORTED, S.ROLLING_BACK, S.ROLLED_BACK})

_WENT_WRONG: Final = "A task of the cutover failed; see its log."
_BECAME: Final = {
    CutoverState.ABORTED: "was aborted before the switch, and blue is unchanged",
    CutoverState.ROLLED_BACK: "was rolled back, and blue is live again",
}


class CutoverApprovalOperator(StreamApprovalOperator):
    """
    Ask a user for the word for which a cutover waits, and record it.

    The word is a record in the stream's home, like a word from the command line; the waiting task
    continues with it. Silence until ``response_timeout`` is a no. Once the word, or its opposite,
    was recorded elsewhere the task succeeds; it is skipped when the cutover has moved on without
    either.

    :param word: ``promote``: make green live, and a no abandons the cutover; ``keep``: leave it
        live for good, and a no leads consumers back to blue.
    :param preflight_task_id: The task of the same run that made the report.
    """

    @checked
    def __init__(self, *, word: str, preflight_task_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if word not in REFUSAL:
            raise SpecError(f"word is {word!r}; give {', '.join(REFUSAL)}.")
        self.word = CutoverCommand(word)
        self.preflight_task_id = preflight_task_id

    def execute(self, context: Context) -> Any:
        home = self.records()
        change = self._change(home, context)
        state = CUTOVER.state_of(home.steps(change.number))
        if state not in _IN[self.word]:
            raise AirflowSkipException(
                f"No approval is needed: the cutover is in state {words(state)}."
            )
        terms = home.cutover_terms(change)
        if self.word is PROMOTE and terms.promotes_by_itself and state is CutoverState.READY:
            raise AirflowSkipException(
                "No approval is needed: the terms promote a ready green automatically."
            )
        if self.word is KEEP and terms.finalizes_by_itself:
            raise AirflowSkipException(
                "No approval is needed: the terms keep green automatically after a good soak."
            )
        return self.ask(context)

    def question(self, context: Context, **waiting: Any) -> CommandQuestionTrigger:
        from airflow_streaming.triggers.question import CommandQuestionTrigger  # not at dag parse

        change = self._change(self.records(), context).number
        return CommandQuestionTrigger(change=change, command=self.word.value, **waiting)

    def settled(self, context: Context, settled: Settled) -> dict[str, str]:
        if settled.answer is Answer.VOID:
            raise AirflowSkipException(f"No approval is needed any more. {settled.reason}")
        self.log.info("The question was answered elsewhere. %s", settled.reason)
        return {"answered_elsewhere": settled.answer.value, "reason": settled.reason}

    def answered(self, context: Context, event: dict[str, Any]) -> Any:
        # Not the approval's own: after a no it would skip the tasks that carry the no out.
        answer = HITLOperator.execute_complete(self, context, event)
        no = self.said_no(event)
        word = REFUSAL[self.word] if no else self.word
        reason = no or f"Approved by {answered_by(event) or 'an unnamed user'}."
        return answer if self._give(word, reason, context) else self.ask_anew(context)

    def _give(self, word: CutoverCommand, reason: str, context: Context) -> bool:
        """Record a command; return false where it came too early, and the question is still open."""
        from airflow_streaming.hooks.launchers import task_launcher  # not at dag parse
        from airflow_streaming.services.changes import command_cutover  # not at dag parse

        home = self.records()
        change = self._change(home, context)
        try:
            command_cutover(
                *(home, change.number, word),
                by=who(context),
                reason=reason,
                launcher=task_launcher(home),
            )
        except CutoverRefused as err:
            history = home.steps(change.number)
            state = words(CUTOVER.state_of(history))
            if command_settled(self.word, history, home.change_end(change.number)) is None:
                self.log.warning(
                    "Green is compared again (%s), so this task asks for the word again.", state
                )
                return False
            raise AirflowFailException(
                f"The answer came too late: the cutover is in state {state}. {err}"
            ) from err
        self.log.info("Recorded %s: %s", words(word), reason)
        return True

    def _change(self, home: StreamHome, context: Context) -> Change:
        found = found_cutover(home, report_of_run(context, home, self.preflight_task_id))
        if found is None:
            raise AirflowFailException(
                f"This run has started no cutover of stream {self.stream!r}. Run the whole DAG again."
            )
        return found


def begin(engine: Cutover, lanes: DagLanes, report: Mapping[str, Any]) -> Change:
    """
    Open the change, or return the open change with the same terms.

    :raises CutoverRefused: the proposal differs from the report, or another change is open.
    """
    from airflow_streaming.changes.cutover.plan import CutoverPlan  # not at dag parse

    _retire_what_is_kept(engine, lanes)
    way = SwitchMethod(report["way"])
    made = list(_pairs(lanes, report, way))
    course = decode(CutoverPlan, report["course"], "course")
    terms = course.terms(way, tuple(pair for pair, _ in made), report["key"])
    sources = {pair.stream: source for pair, source in made}
    return engine.begin(terms, sources, f"Asked by a run of a dag: {report['key']}.")


def _retire_what_is_kept(engine: Cutover, lanes: DagLanes) -> None:
    """Give an earlier blue up, as the report announced: its lane is needed."""
    change = next(led_by(lanes.home), None)
    if (
        change is not None
        and CUTOVER.state_of(lanes.home.steps(change.number)) is CutoverState.FINALIZED
    ):
        engine.command(CutoverCommand.RETIRE, "The next cutover needs its lane.", change.number)


def _pairs(
    lanes: DagLanes, report: Mapping[str, Any], way: SwitchMethod
) -> Iterator[tuple[Pair, bytes]]:
    values = {one["stream"]: one for one in report["pairs"]}
    for candidate in lanes.candidates():
        one = values.get(candidate.stream)
        if one is None:
            raise CutoverRefused(
                f"Stream {candidate.stream!r} was not in the report that was approved. Run the "
                "whole dag again."
            )
        yield _pair(candidate, one, way)


def _pair(candidate: Candidate, values: Mapping[str, Any], way: SwitchMethod) -> tuple[Pair, bytes]:
    from airflow_streaming.changes.cutover.lanes import Facts, pair_of  # not at dag parse
    from airflow_streaming.model.jobs.migration import StateMigration  # not at dag parse
    from airflow_streaming.model.records.upgrade import SinkFacts  # not at dag parse

    pair, source = pair_of(
        candidate,
        way,
        Facts(
            start=StartWay(values["start"]),
            replay_from=values["replay_from"],
            queries=tuple(values["queries"]),
            stateful=tuple(values["stateful"]),
            sinks=tuple(decode(SinkFacts, sink, "sink") for sink in values["sinks"]),
            migrations=tuple(
                decode(StateMigration, one, "migration") for one in values.get("migrations", ())
            ),
        ),
    )
    runs = (pair.blue, pair.blue_deployment)
    if runs != (values["blue"], values["replaced"]):
        raise CutoverRefused(
            f"Stream {pair.stream!r} runs deployment {pair.blue_deployment} in lane {pair.blue!r}, "
            f"and the report was made for {values['replaced']} in {values['blue']!r}. Run the whole dag "
            "again."
        )
    if pair.shadow.fingerprint != values["fingerprint"]:
        raise CutoverRefused(
            f"The DAG's proposal for stream {pair.stream!r} has changed since the report was "
            "made, so it is not approved. Run the whole DAG again."
        )
    return pair, source


class CutoverStepOperator(CutoverTask):
    """
    Advance a cutover to a state, through all states before it.

    The first step of a run opens the change from the preflight's report, so only the approved
    proposal starts. It fails when the cutover is abandoned before this state.

    A step that leads to ``ready`` also ends without proof, when a user must decide; its XCom
    ``markdown`` is the page for this user.

    :param until: The state, by name, e.g. ``catching_up``, ``comparing``, ``ready``, ``soaking``.
    """

    @checked
    def __init__(self, *, until: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until = state_named(until)

    def execute(self, context: Context) -> dict[str, Any]:
        with self.telling(context):
            return self._go(context, None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again, and continue."""
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
        # A green that is held is put to a user by the approval, which runs after these steps.
        is_held = progress.state is S.HELD and self.until in (S.COMPARING, S.READY)
        return progress.is_there or is_held

    def _check(self, progress: Progress) -> None:
        if progress.state in GIVEN_UP:
            raise AirflowFailException(
                f"The cutover of stream {self.stream.name!r} was aborted ({words(progress.state)}): "
                f"{progress.reason}"
            )

    def _open(self, context: Context) -> int:

        report = self.report(context)
        if report is None:
            raise AirflowFailException(
                f"Task {self.preflight_task_id!r} left no report in this run, and a cutover needs one. "
                "Run the whole DAG again."
            )
        lanes = self.lanes(context)
        found = found_cutover(lanes.home, report)
        if found is None:
            actor = actor_of(self, context)
            for one in self.streams:
                lanes.home.beside(one.name).check_owner(actor)
            self._lay_pointers(lanes.home)
            found = begin(self.engine(lanes, context), lanes, report)
            self.log.info("Change %d is open: %s", found.number, found.reason)
        return found.number

    def _lay_pointers(self, home: StreamHome) -> None:
        from airflow_streaming.operators.common.cutover_checks import lay  # not at dag parse
        from airflow_streaming.operators.common.cutover_lanes import usable  # not at dag parse

        for name in lay(usable(self.pointers), home):
            self.log.info("Pointer %s now leads to the live lane.", name)


def state_named(name: str) -> CutoverState:
    """
    Return a state that a step can lead to, by its name.

    :raises SpecError: the name is unknown.
    """
    if name not in STEPS:
        raise SpecError(f"until is {name!r}; give {', '.join(STEPS)}.")
    return CutoverState(name)


class CutoverCheckOperator(CutoverTask):
    """
    Run the author's checks on green's output beside blue's.

    The results are recorded with the cutover, which continues or is abandoned by them. If green
    must begin again later, the waiting task runs them once more.
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


class CutoverFinishOperator(CutoverTask):
    """
    End a cutover, also after a task before it has failed.

    It succeeds when green stays, is skipped when the run started no cutover on purpose, and fails,
    with the reason, when blue is live. A cutover with a failed task is abandoned: before the switch
    blue stays unchanged, after it consumers are led back to blue.

    :param approve_task_id: The task in which a user approved the start.
    :param step_task_ids: The steps, the last one last.
    """

    @checked
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
        self.skip_what_was_not_begun(context, self.preflight_task_id, self.approve_task_id)
        with self.working():
            lanes = self.lanes(context)
            change = self._found(context, lanes)
            if change is None:
                raise AirflowFailException(
                    f"The cutover of stream {self.stream.name!r} ended before it changed anything; the "
                    "stream is unchanged. See the log of the task that failed."
                )
            if lanes.home.change_end(change.number) is None:
                self._give_up_what_failed(lanes, change, context)
        return self._end(context, None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again; the commands given are recorded in the stream's home."""
        return self._end(context, event.get("memory"))

    def _give_up_what_failed(self, lanes: DagLanes, change: Change, context: Context) -> None:
        from airflow_streaming.hooks.launchers import task_launcher  # not at dag parse
        from airflow_streaming.services.changes import command_cutover  # not at dag parse

        wrong = self._what_is_wrong(context)
        if not wrong:
            return
        state = CUTOVER.state_of(lanes.home.steps(change.number))
        if not (state.can_roll_back or state.can_abort):
            return
        try:
            # Before the switch this gives it up.
            command_cutover(
                *(lanes.home, change.number, CutoverCommand.ROLL_BACK),
                by=lanes.by,
                reason=wrong,
                launcher=task_launcher(lanes.home),
            )
        except CutoverRefused as err:
            # A user was faster, or the point of no return lies behind: then only forward.
            self.log.info("The cutover is not rolled back: %s What failed: %s", err, wrong)

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
                f"The change of this run is missing from the home of stream {self.stream.name!r}. Check "
                "that the home's volume is mounted, then run this task again."
            )
        progress = self.go_on(context, CutoverState.FINALIZED, memory, change.number)
        if progress.state not in (CutoverState.FINALIZED, CutoverState.RETIRED):
            raise AirflowFailException(self._sentence(progress))
        self.log.info(
            "Green stays. Write the new version into the DAG, or the DAG keeps proposing the old one. "
            "Blue is stopped and can be restarted until it is retired."
        )
        return {"state": progress.state.value, "change": change.number, **progress.facts}

    def _sentence(self, progress: Progress) -> str:
        became = _BECAME.get(progress.state, f"is in state {words(progress.state)}")
        return f"The cutover of stream {self.stream.name!r} {became}: {progress.reason}"

    def _found(self, context: Context, lanes: DagLanes) -> Change | None:
        return found_cutover(lanes.home, self.report(context))


class CutoverRetireOperator(CutoverTask):
    """
    Wait until blue need not be kept any longer, take its final backup, and free its lane.

    It waits deferred and holds no worker. The next cutover does not wait for it: it needs the lane,
    and retires blue itself.

    """

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_streaming.triggers.change import CutoverTrigger  # not at dag parse

        change, left = self._look(context)
        if left is not None:
            self.log.info(
                "Blue is kept until %s UTC.", f"{datetime.now(UTC) + left:%Y-%m-%d %H:%M}"
            )
            woken = {**self.woken_by(), "wake_seconds": left.total_seconds()}
            self.defer(
                trigger=CutoverTrigger(change=change, **woken), method_name="execute_complete"
            )
        return {"change": change}

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Look again: the time may be over, or another task has retired it."""
        return self.execute(context)

    def _look(self, context: Context) -> tuple[int, timedelta | None]:
        """Return the cutover, and for how long blue is kept; ``None`` when it is retired now."""
        with self.working():
            lanes = self.lanes(context)
            change = found_cutover(lanes.home, self.report(context))
            if change is None:
                raise AirflowSkipException(
                    "This run started no cutover, so no blue lane needs to be retired."
                )
            steps = lanes.home.steps(change.number)
            left = _left(lanes.home, change, steps)
            if left is None:
                raise AirflowSkipException(f"Nothing is kept: {words(CUTOVER.state_of(steps))}.")
            if left <= timedelta():
                reason = "Blue was kept for the requested time."
                self.engine(lanes, context).command(CutoverCommand.RETIRE, reason, change.number)
                self.log.info("Blue is retired: its final backup is taken, and its lane is free.")
                return change.number, None
        return change.number, left


def _left(home: StreamHome, change: Change, steps: Sequence[CutoverTransition]) -> timedelta | None:
    """Return for how long blue is still kept; ``None`` when it is not, or not any more."""
    if CUTOVER.state_of(steps) is not CutoverState.FINALIZED:
        return None
    return home.cutover_terms(change).retain_blue - age_of(steps[-1].at, datetime.now(UTC))
