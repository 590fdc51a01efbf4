"""The task in which a person says yes or no to an upgrade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.operators._checkpoint.common import truth
from airflow_streaming.operators._gate.common import REPORT_XCOM_KEY
from airflow_streaming.operators._upgrade.run import ENDED_XCOM_KEY
from airflow_streaming.triggers.answer import AnswerTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class UpgradeApprovalOperator(ApprovalOperator):
    """
    Ask a person whether an upgrade may begin; until then nothing has been done.

    A no leaves everything as it was, and so does silence until ``response_timeout``. A dry run ends
    here. Airflow itself sees to it that only the assigned users may answer.

    Who answers within a few seconds of the question is too fast for Airflow: its scheduler meets the
    task queued again before it has heard that the worker which asked has ended, takes it for killed,
    and fails the try. The next try reads the answer that was given instead of asking once more (an
    Airflow operator would drop it). It is read by the triggerer, the only one who can, and only in a
    retry: when a person clears the task, he is asked anew.

    :param preflight_task_id: The task whose report is asked about.
    :param is_dry_run: End here. (templated)
    :param need_approval: Ask; without it, whoever started the run has said yes by that.
        (templated)
    :param approvers: Who may answer, as ids of Airflow's users, a list or a text with commas; empty
        for everybody who may edit the dag. (templated)
    :param allowed_approvers: The most that ``approvers`` may name, so that nobody makes himself an
        approver in a form. Where there are any, approval cannot be turned off.
    """

    template_fields: Sequence[str] = (
        *ApprovalOperator.template_fields,
        "is_dry_run",
        "need_approval",
        "approvers",
    )

    def __init__(
        self,
        *,
        preflight_task_id: str,
        is_dry_run: bool | str = False,
        need_approval: bool | str = True,
        approvers: Sequence[str] | str = (),
        allowed_approvers: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        if kwargs.get("response_timeout") is not None:
            # Silence is a no: the task then ends like one instead of failing.
            kwargs.setdefault("defaults", self.REJECT)
        super().__init__(**kwargs)
        self.preflight_task_id = preflight_task_id
        self.is_dry_run = is_dry_run
        self.need_approval = need_approval
        self.approvers = approvers
        self.allowed_approvers = tuple(allowed_approvers)

    def execute(self, context: Context) -> Any:
        ti = context["ti"]
        ended = ti.xcom_pull(task_ids=self.preflight_task_id, key=ENDED_XCOM_KEY)
        report = ti.xcom_pull(task_ids=self.preflight_task_id, key=REPORT_XCOM_KEY) or {}
        if not ended and truth(self.is_dry_run, "dry_run"):
            ended = "This was a dry run: nothing was begun."
        if ended:
            self._end(context, ended)
            raise AirflowSkipException(ended)
        if report.get("resumes"):
            self.log.info("Change %s was approved when it was begun.", report["resumes"])
            return None
        if not self.allowed_approvers and not truth(self.need_approval, "need_approval"):
            self.log.info("No approval is asked for.")
            return None
        self.assigned_users = [{"id": name, "name": name} for name in self._who_may_answer()]
        if is_retry(ti, self.retries):
            self.defer(trigger=AnswerTrigger(ti_id=str(ti.id)), method_name="on_answer")
        return super().execute(context)

    def on_answer(self, context: Context, event: dict[str, Any]) -> Any:
        """Take the answer that an earlier try was given; ask again where there is none."""
        if event.get("chosen_options"):
            self.log.info("It was answered already, in an earlier try.")
            return self.execute_complete(context, event)
        self.assigned_users = [{"id": name, "name": name} for name in self._who_may_answer()]
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if self.REJECT in event.get("chosen_options", ()):
            user = event.get("responded_by_user") or {}
            name = user.get("name") or user.get("id")
            self._end(context, f"{name} said no." if name else "Nobody approved it in time.")
        return super().execute_complete(context, event)

    def _who_may_answer(self) -> list[str]:
        asked = self.approvers.split(",") if isinstance(self.approvers, str) else self.approvers
        named = [name.strip() for name in asked if name.strip()]
        strangers = sorted(set(named) - set(self.allowed_approvers))
        if self.allowed_approvers and strangers:
            raise AirflowFailException(
                f"{', '.join(strangers)} may not approve this; {', '.join(self.allowed_approvers)} "
                "may. Start the run again, or have the dag's author add them to approvers."
            )
        return named or list(self.allowed_approvers)

    def _end(self, context: Context, reason: str) -> None:
        self.log.info("%s", reason)
        context["ti"].xcom_push(key=ENDED_XCOM_KEY, value=reason)


def is_retry(ti: Any, retries: int | None) -> bool:
    """
    Tell whether this try follows one that failed by itself.

    Airflow allows a task that was cleared more tries than it has retries.
    """
    return bool(ti.try_number > 1 and ti.max_tries == retries)
