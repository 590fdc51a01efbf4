"""The task that ends an upgrade: the new deployment is kept, or the old one is back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.core.upgrade.soak import SoakResult
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.exceptions import HomeUnavailable, UpgradeRefused
from airflow_streaming.operators._gate.common import REPORT_XCOM_KEY
from airflow_streaming.operators._upgrade.check import PASSED_XCOM_KEY
from airflow_streaming.operators._upgrade.run import (
    ENDED_XCOM_KEY,
    WRONG_XCOM_KEY,
    first_told,
    found_change,
    pulled,
)
from airflow_streaming.operators._upgrade.task import UpgradeTask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.core.change import Change
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.upgrade.asked import Progress

_NOT_SOAKED: Final = "A task of the upgrade came to no good end; its log says why."
_NOT_PASSED: Final = "A check came to no end; its log says why."


class UpgradeSettleOperator(UpgradeTask):
    """
    Keep the new deployment when all went well, and otherwise take the upgrade back.

    It runs whatever became of the tasks before it. It succeeds when the new deployment is kept, is
    skipped when nothing was begun on purpose, and fails, with what went wrong, when the old
    deployment is back. A run that only looked, or was told no, touches no upgrade that somebody
    else has begun.

    :param preflight_task_id: The task that made the report.
    :param approve_task_id: The task in which a person was asked.
    :param soak_task_id: The step that leads to ``judged``.
    :param step_task_ids: The steps before it, in whose words it is told what went wrong.
    :param check_task_id: The task with the checks; ``None`` without any.
    """

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
        self.link_to_stream(context)
        self._skip_what_was_not_begun(context)
        return self._settle(context, None)

    def on_event(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again; what was said stands in the stream's home."""
        return self._settle(context, event.get("memory"))

    def _settle(self, context: Context, memory: dict[str, Any] | None) -> dict[str, Any]:
        with self.patient(memory), self.working():
            hook = self.hook(context)
            change = self._found(context, hook)
            if hook.home.change_end(change.number) is None:
                self._say_how_it_ends(context, hook, change)
        return self._end(context, change, memory)

    def _say_how_it_ends(self, context: Context, hook: SparkStreamHook, change: Change) -> None:
        wrong = _judgement(hook.home, change) or self._what_is_wrong(context)
        if not wrong and not _is_decided(hook.home, change):
            # Checks take their time: whoever fell meanwhile is rolled back and not kept.
            self.engine(hook, hook.observer()).advance(Stage.KEPT, change.number)
        if _is_decided(hook.home, change):
            return  # by a person, by the look, or by this task before it was killed
        if not wrong:
            self._keep(hook, change, "It soaked well, and its checks have passed.")
            return
        try:
            self.words(hook).roll_back(change, wrong)
        except UpgradeRefused as err:
            # Without a way back the point of no return lies behind; the keep-alive task has to
            # have the stream again.
            reason = f"It cannot be taken back: {err} What went wrong: {wrong}"
            self._keep(hook, change, reason)

    def _keep(self, hook: SparkStreamHook, change: Change, reason: str) -> None:
        try:
            self.words(hook).keep(change, reason)
        except UpgradeRefused as err:
            if not _is_decided(hook.home, change):
                raise
            # A person was faster, and is followed.
            self.log.info("%s", err)

    def _what_is_wrong(self, context: Context) -> str:
        soaked = pulled(context, self.soak_task_id, "return_value")
        if not soaked:
            steps = (self.soak_task_id, *reversed(self.step_task_ids))
            return first_told(context, steps, WRONG_XCOM_KEY) or _NOT_SOAKED
        if self.check_task_id and not pulled(context, self.check_task_id, PASSED_XCOM_KEY):
            return str(pulled(context, self.check_task_id, WRONG_XCOM_KEY) or _NOT_PASSED)
        return ""

    def _end(
        self, context: Context, change: Change, memory: dict[str, Any] | None
    ) -> dict[str, Any]:
        progress = self.go_on(context, Stage.KEPT, memory, change.number)
        if progress.stage is not Stage.KEPT or self._what_is_wrong(context):
            raise AirflowFailException(self._sentence(progress))
        self.log.info(
            "Deployment %d is kept. Write the same into the dag, or it goes on proposing the old "
            "one.",
            change.deployment,
        )
        return {"stage": progress.stage.value, "change": change.number, **progress.facts}

    def _sentence(self, progress: Progress) -> str:
        stream = self.stream.name
        if progress.stage is Stage.KEPT:
            return (
                f"The new deployment of stream {stream!r} stays, though it is not good: "
                f"{progress.reason}"
            )
        became = {
            Stage.ROLLED_BACK: "was rolled back, and the old deployment runs",
            Stage.ABORTED: "was given up before anything was changed",
        }.get(progress.stage, f"stands at {progress.stage}")
        return f"The upgrade of stream {stream!r} {became}: {progress.reason}"

    def _found(self, context: Context, hook: SparkStreamHook) -> Change:
        found = found_change(hook.home, pulled(context, self.preflight_task_id, REPORT_XCOM_KEY))
        if found is not None:
            return found
        if any(pulled(context, step, "return_value") for step in self.step_task_ids):
            # A folder that is not mounted looks like an empty one.
            raise HomeUnavailable(
                f"The change of this run is no longer in the home of stream {self.stream.name!r}. "
                "Bring the home back."
            )
        raise AirflowFailException(
            f"The upgrade of stream {self.stream.name!r} ended before anything was begun; "
            "the stream is as it was. The log of the task that failed says why."
        )

    def _skip_what_was_not_begun(self, context: Context) -> None:
        askers = (self.preflight_task_id, self.approve_task_id)
        reason = first_told(context, askers, ENDED_XCOM_KEY)
        if reason:
            raise AirflowSkipException(reason)


def _is_decided(home: StreamHome, change: Change) -> bool:
    ways = (Stage.KEPT, Stage.ROLLING_BACK, Stage.ABORTED)
    return any(stage in home.stages(change.number) for stage in ways)


def _judgement(home: StreamHome, change: Change) -> str:
    """Return why the soak was not good; empty when it was, or has no end yet."""
    judged = home.stages(change.number).get(Stage.JUDGED)
    if judged is None or judged.facts.get("verdict") == SoakResult.GOOD:
        return ""
    return judged.reason
