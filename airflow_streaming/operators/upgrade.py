"""The operators of an upgrade in place: approve, step, check, finish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.changes.answers import Running, Settled
from airflow_streaming.exceptions import HomeUnavailable, SpecError, UpgradeRefused
from airflow_streaming.model.arguments.calls import name_of, run
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.names import base_of
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage, UpgradeCommand
from airflow_streaming.model.wire import decode
from airflow_streaming.operators.common.base import actor_of
from airflow_streaming.operators.common.checkpoint import truth
from airflow_streaming.operators.common.form_edits import (
    ENDED_XCOM_KEY,
    WRONG_XCOM_KEY,
    first_told,
    found_change,
    is_asked,
    pulled,
)
from airflow_streaming.operators.common.run_report import (
    is_recorded,
    push_recorded,
    report_of_run,
)
from airflow_streaming.operators.common.upgrade import StreamApprovalOperator, UpgradeTask
from airflow_streaming.operators.rehearsal import migrations_of
from airflow_streaming.options import Approval, ChangeApproval, Check, Soaked

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.changes.upgrade.begin import UpgradeTermsRequest
    from airflow_streaming.changes.upgrade.engine import UpgradeProgress as Progress
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.model.records.control import Change
    from airflow_streaming.triggers.question import StartQuestionTrigger

_GIVEN_UP: Final = (Stage.ABORTED, Stage.ROLLING_BACK, Stage.RESTORED, Stage.ROLLED_BACK)

PASSED_XCOM_KEY: Final = "passed"
"""XCom that is there when every check has passed."""

_NOT_SOAKED: Final = "A task of the upgrade failed; see its log."
_NOT_PASSED: Final = "A check failed to finish; see its log."


class UpgradeApprovalOperator(StreamApprovalOperator):
    """
    Ask a user whether an upgrade, or a cutover, may begin; until then no change is made.

    A no changes nothing, and neither does silence until ``response_timeout``. A dry run ends here.

    :param preflight_task_id: The task with the report to approve.
    :param dry_run: End here. (templated)
    :param approval: ``begin``: ``ask`` (default), or ``auto``: starting the run was the approval.
        With ``allowed_approvers``, the task always asks. (templated)
    """

    template_fields: Sequence[str] = (
        *StreamApprovalOperator.template_fields,
        "is_dry_run",
        "approval",
    )

    @checked
    def __init__(
        self,
        *,
        preflight_task_id: str,
        dry_run: bool | str = False,
        approval: ChangeApproval | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.preflight_task_id = preflight_task_id
        # BaseOperator has a method called dry_run.
        self.is_dry_run = dry_run
        self.approval = approval

    def execute(self, context: Context) -> Any:
        ti = context["ti"]
        ended = ti.xcom_pull(task_ids=self.preflight_task_id, key=ENDED_XCOM_KEY)
        if not ended and truth(self.is_dry_run, "dry_run"):
            ended = "This was a dry run: nothing was changed."
        if ended:
            self.end(context, ended)
            raise AirflowSkipException(ended)
        report = self._report(context)
        if report.get("resumes"):
            self.log.info("Change %s was approved when it was started.", report["resumes"])
            return None
        if not self.allowed_approvers and not is_asked(self.approval, "begin", Approval.ASK):
            self.log.info("The run needs no approval.")
            return None
        return self.ask(context)

    def question(self, context: Context, **waiting: Any) -> StartQuestionTrigger:
        from airflow_streaming.triggers.question import StartQuestionTrigger  # not at dag parse

        return StartQuestionTrigger(asked=asked_about(self._report(context)), **waiting)

    def _report(self, context: Context) -> Mapping[str, Any]:
        return report_of_run(context, self.records(), self.preflight_task_id) or {}

    def answered(self, context: Context, event: dict[str, Any]) -> Any:
        no = self.said_no(event)
        if no:
            self.end(context, no)
        return ApprovalOperator.execute_complete(self, context, event)

    def settled(self, context: Context, settled: Settled) -> NoReturn:
        self.end(context, settled.reason)
        raise AirflowSkipException(settled.reason)


def asked_about(report: Mapping[str, Any]) -> dict[str, Running]:
    """Return the streams that a preflight's report is about, with the deployments it was made for."""
    pairs = report.get("pairs", ())
    if pairs:
        return {one["stream"]: Running(one["blue"], one["replaced"]) for one in pairs}
    lane = report["stream"]
    return {base_of(lane): Running(lane, report["replaced"])}


class UpgradeStepOperator(UpgradeTask):
    """
    Advance an upgrade to a stage, through all stages before it.

    The first step of a run opens the change from the preflight's report, so only the approved
    proposal is deployed. While the change is open the keep-alive task only watches.

    ``until="judged"`` is the soak; it fails when the new deployment is not good.

    :param until: The stage, by name: ``backed_up``, ``ready`` (the same without a warm-up),
        ``stopped``, ``deployed``, ``launched`` or ``judged``.
    :param preflight_task_id: The task of the same run that made the report.
    """

    @checked
    def __init__(
        self,
        *,
        until: str,
        preflight_task_id: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.until = stage_of(until)
        self.preflight_task_id = preflight_task_id

    def execute(self, context: Context) -> dict[str, Any]:
        with self.telling(context):
            return self._go(context, None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again, and continue."""
        with self.telling(context):
            return self._go(context, event.get("memory"))

    def _go(self, context: Context, memory: dict[str, Any] | None) -> dict[str, Any]:
        with self.patient(memory), self.working():
            change = self._open(context)
        progress = self.go_on(context, self.until, memory, change)
        self._check(progress)
        return {
            "change": change,
            "stage": progress.state.value,
            "reason": progress.reason,
            "facts": dict(progress.facts),
        }

    def _check(self, progress: Progress) -> None:
        from airflow_streaming.changes.judging.soak import SoakResult  # not at dag parse

        stream = self.stream.name
        if progress.state in _GIVEN_UP:
            raise AirflowFailException(
                f"The upgrade of stream {stream!r} is over ({progress.state}): {progress.reason}"
            )
        is_judged = self.until is Stage.JUDGED and progress.state is Stage.JUDGED
        if is_judged and progress.facts.get("verdict") != SoakResult.GOOD:
            raise AirflowFailException(
                f"The new deployment of stream {stream!r} is not good: {progress.reason}"
            )

    def _open(self, context: Context) -> int:
        hook = self.hook(context)
        report = report_of_run(context, hook.home, self.preflight_task_id)
        if report is None:
            raise AirflowFailException(
                f"Task {self.preflight_task_id!r} left no report in this run, and an upgrade needs one. "
                "Run the whole DAG again."
            )
        found = found_change(hook.home, report)
        if found is None:
            hook.home.check_owner(actor_of(self, context))
            found = self._begin(hook, report)
            self.log.info("Change %d is open: %s", found.number, found.reason)
        return found.number

    def _begin(self, hook: SparkStreamHook, report: Mapping[str, Any]) -> Change:
        proposed, source = hook.proposal()
        current = hook.home.newest_deployment()
        if proposed.fingerprint != report["fingerprint"]:
            raise UpgradeRefused(
                f"The DAG's proposal for stream {hook.home.name!r} has changed since the "
                "report was made, so it is not approved. Run the whole DAG again."
            )
        if current is None or current.number != report["replaced"]:
            raise UpgradeRefused(
                f"Stream {hook.home.name!r} runs another deployment than the report was made for. "
                "Run the whole dag again."
            )
        return self.engine(hook, hook.observer()).begin(proposed, source, self._asked(report))

    def _asked(self, report: Mapping[str, Any]) -> UpgradeTermsRequest:
        from airflow_streaming.changes.upgrade.begin import UpgradeTermsRequest  # not at dag parse
        from airflow_streaming.model.records.upgrade import (  # not at dag parse
            RollbackPlan,
            SinkFacts,
        )

        return UpgradeTermsRequest(
            rollback=decode(RollbackPlan, report["rollback"], "rollback"),
            soak=decode(SoakTerms, report["soak"], "soak"),
            keeps_by_itself=False,  # the checks, and the task that settles it, come first
            stop_grace=self.stream.stop_grace,
            sinks=tuple(decode(SinkFacts, sink, "sink") for sink in report["sinks"]),
            prewarm=bool(report.get("prewarm", False)),
            accepts_no_way_back=True,  # or the preflight had refused it
            key=report["key"],
            partitions=int(report.get("partitions", 0)),
            migrations=migrations_of(report),
            reason=f"Asked by a run of a dag: {report['key']}.{_accepted(report)}",
        )


def _accepted(report: Mapping[str, Any]) -> str:
    codes = report.get("accepted") or ()
    return f" {report.get('asker') or 'Its author'} accepts {', '.join(codes)}." if codes else ""


def stage_of(name: str) -> Stage:
    """
    Return a stage that a step can lead to, by its name.

    :raises SpecError: the name is unknown.
    """
    allowed = (
        *(Stage.BACKED_UP, Stage.READY, Stage.STOPPED),
        *(Stage.DEPLOYED, Stage.LAUNCHED, Stage.JUDGED),
    )
    if name not in allowed:
        raise SpecError(f"until is {name!r}; give {', '.join(allowed)}.")
    return Stage(name)


class UpgradeCheckOperator(UpgradeTask):
    """
    Check the results of a new deployment, before it is kept.

    The task fails with a check's finding, and the task that settles the upgrade rolls it back.

    :param checks: Each is called with a ``Soaked``.
    :param preflight_task_id: The task of the same run that made the report.
    """

    @checked
    def __init__(self, *, checks: Sequence[Check], preflight_task_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checks = tuple(checks)
        self.preflight_task_id = preflight_task_id

    def execute_complete(self, context: Context, event: dict[str, Any]) -> int:
        """Begin again: the task was deferred before it called the first check."""
        return self.execute(context)

    def execute(self, context: Context) -> int:
        with self.patient(None), self.working():
            soaked = self._soaked(context)
        for check in self.checks:
            wrong = wrong_by(check, self._answer(check, soaked, context))
            if wrong:
                context["ti"].xcom_push(key=WRONG_XCOM_KEY, value=wrong)
                raise AirflowFailException(wrong)
            self.log.info("Check %r has passed.", name_of(check))
        with self.patient(None):
            push_recorded(context, self.hook(context).home, PASSED_XCOM_KEY, True)
        return len(self.checks)

    @staticmethod
    def _answer(check: Check, soaked: Soaked, context: Context) -> bool | str | None:
        try:
            return run(check, soaked)  # type: ignore[no-any-return]
        except Exception as err:
            from airflow_streaming.model.spark.failures import presentable  # not at dag parse

            text = presentable(f"{type(err).__name__}: {err}")
            wrong = f"Check {name_of(check)!r} raised {text}"
            context["ti"].xcom_push(key=WRONG_XCOM_KEY, value=wrong)
            raise

    def _soaked(self, context: Context) -> Soaked:
        home = self.hook(context).home
        report = report_of_run(context, home, self.preflight_task_id)
        change, deployment = found_change(home, report), home.newest_deployment()
        if change is None or deployment is None or change.deployment != deployment.number:
            raise AirflowFailException(
                f"Stream {self.stream.name!r} does not run what this run has deployed, so there is "
                "nothing to check."
            )
        return Soaked(
            stream=home.name,
            home=self.stream.home,
            change=change.number,
            deployment=deployment,
            replaced=home.deployment(change.replaced),
            begun_at=change.at,
            context=context,
        )


def wrong_by(check: Check, answer: bool | str | None) -> str:
    """Return a check's finding in a sentence; empty if the check passed."""
    if answer is None or answer is True or answer == "":
        return ""
    return (
        f"Check {name_of(check)!r}: {answer if isinstance(answer, str) else 'it returned False.'}"
    )


class UpgradeFinishOperator(UpgradeTask):
    """
    Keep the new deployment if all tasks succeeded, and roll the upgrade back otherwise.

    It always runs. It succeeds when the new deployment is kept, is skipped when the run started no
    upgrade on purpose, and fails, with the reason, when the old deployment is back. A dry run, or a
    run without approval, touches no upgrade of another task.

    :param preflight_task_id: The task that made the report.
    :param approve_task_id: The task that asks a user.
    :param soak_task_id: The step that leads to ``judged``.
    :param step_task_ids: The steps before it, whose errors give the reason.
    :param check_task_id: The task with the checks; ``None`` without any.
    """

    @checked
    def __init__(
        self,
        *,
        preflight_task_id: str,
        soak_task_id: str,
        approve_task_id: str | None = None,
        step_task_ids: Sequence[str] = (),
        check_task_id: str | None = None,
        trigger_rule: str = TriggerRule.ALL_DONE,
        **kwargs: Any,
    ) -> None:
        super().__init__(trigger_rule=trigger_rule, **kwargs)
        self.preflight_task_id = preflight_task_id
        self.approve_task_id = approve_task_id
        self.soak_task_id = soak_task_id
        self.step_task_ids = tuple(step_task_ids)
        self.check_task_id = check_task_id

    def execute(self, context: Context) -> dict[str, Any]:
        self.skip_what_was_not_begun(context, self.preflight_task_id, self.approve_task_id)
        return self._settle(context, None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again; the commands given are recorded in the stream's home."""
        return self._settle(context, event.get("memory"))

    def _settle(self, context: Context, memory: dict[str, Any] | None) -> dict[str, Any]:
        with self.patient(memory), self.working():
            hook = self.hook(context)
            change = self._found(context, hook)
            if hook.home.change_end(change.number) is None:
                self._say_how_it_ends(context, hook, change)
        return self._end(context, hook.home, change, memory)

    def _say_how_it_ends(self, context: Context, hook: SparkStreamHook, change: Change) -> None:
        wrong = _judgment(hook.home, change) or self._what_is_wrong(context, hook.home)
        if not wrong and not _is_decided(hook.home, change):
            # Checks take their time: a deployment that fell meanwhile is rolled back and not kept.
            self.engine(hook, hook.observer()).advance(Stage.KEPT, change.number)
        if _is_decided(hook.home, change):
            return  # by a user, by the look, or by this task before it was killed
        if not wrong:
            self._keep(hook, change, "It soaked well, and its checks have passed.")
            return
        try:
            self.command(hook, change, UpgradeCommand.ROLL_BACK, wrong)
        except UpgradeRefused as err:
            # Without a way back the point of no return lies behind; the keep-alive task must
            # have the stream again.
            reason = f"The upgrade cannot be rolled back: {err} What failed: {wrong}"
            self._keep(hook, change, reason)

    def _keep(self, hook: SparkStreamHook, change: Change, reason: str) -> None:
        try:
            self.command(hook, change, UpgradeCommand.KEEP, reason)
        except UpgradeRefused as err:
            if not _is_decided(hook.home, change):
                raise
            # A user was faster, and is followed.
            self.log.info("%s", err)

    def _what_is_wrong(self, context: Context, home: StreamHome) -> str:
        soaked = pulled(context, self.soak_task_id, "return_value")
        if not soaked:
            steps = (self.soak_task_id, *reversed(self.step_task_ids))
            return first_told(context, steps, WRONG_XCOM_KEY) or _NOT_SOAKED
        if self.check_task_id and not self._has_passed(context, home, self.check_task_id):
            return str(pulled(context, self.check_task_id, WRONG_XCOM_KEY) or _NOT_PASSED)
        return ""

    @staticmethod
    def _has_passed(context: Context, home: StreamHome, task_id: str) -> bool:
        # Airflow forgets the XCom of a task that runs again, and a user can write one by hand.
        passed = pulled(context, task_id, PASSED_XCOM_KEY)
        return bool(passed) and is_recorded(context, home, task_id, PASSED_XCOM_KEY, passed)

    def _end(
        self,
        context: Context,
        home: StreamHome,
        change: Change,
        memory: dict[str, Any] | None,
    ) -> dict[str, Any]:
        progress = self.go_on(context, Stage.KEPT, memory, change.number)
        if progress.state is not Stage.KEPT or self._what_is_wrong(context, home):
            raise AirflowFailException(self._sentence(progress))
        self.log.info(
            "Deployment %d is kept. Write the same into the DAG, or the DAG keeps proposing the old one.",
            change.deployment,
        )
        return {"stage": progress.state.value, "change": change.number, **progress.facts}

    def _sentence(self, progress: Progress) -> str:
        stream = self.stream.name
        if progress.state is Stage.KEPT:
            return (
                f"The new deployment of stream {stream!r} stays, though it is not good: "
                f"{progress.reason}"
            )
        became = {
            Stage.ROLLED_BACK: "was rolled back, and the old deployment runs",
            Stage.ABORTED: "was aborted before it changed anything",
        }.get(progress.state, f"is at stage {progress.state}")
        return f"The upgrade of stream {stream!r} {became}: {progress.reason}"

    def _found(self, context: Context, hook: SparkStreamHook) -> Change:
        report = report_of_run(context, hook.home, self.preflight_task_id)
        found = found_change(hook.home, report)
        if found is not None:
            return found
        if any(pulled(context, step, "return_value") for step in self.step_task_ids):
            # A folder that is not mounted looks like an empty one.
            raise HomeUnavailable(
                f"The change of this run is missing from the home of stream {self.stream.name!r}. Check "
                "that the home's volume is mounted, then run this task again."
            )
        raise AirflowFailException(
            f"The upgrade of stream {self.stream.name!r} ended before it changed anything; the stream is "
            "unchanged. See the log of the task that failed."
        )


def _is_decided(home: StreamHome, change: Change) -> bool:
    return UPGRADE.state_of(home.upgrade_steps(change.number)).is_decided


def _judgment(home: StreamHome, change: Change) -> str:
    """Return why the soak was not good; empty when it was, or has no end yet."""
    from airflow_streaming.changes.judging.soak import SoakResult  # not at dag parse

    judged = home.stages(change.number).get(Stage.JUDGED)
    if judged is None or judged.facts.get("verdict") == SoakResult.GOOD:
        return ""
    return judged.reason
