"""The task in which a person says yes or no to an upgrade, or to the beginning of a cutover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_streaming.operators._asking import QuestionOperator
from airflow_streaming.operators._checkpoint.common import truth
from airflow_streaming.operators._gate.common import REPORT_XCOM_KEY
from airflow_streaming.operators._upgrade.run import ENDED_XCOM_KEY

if TYPE_CHECKING:
    from airflow.sdk import Context


class UpgradeApprovalOperator(QuestionOperator):
    """
    Ask a person whether an upgrade, or a cutover, may begin; until then nothing has been done.

    A no leaves everything as it was, and so does silence until ``response_timeout``. A dry run ends
    here.

    :param preflight_task_id: The task whose report is asked about.
    :param is_dry_run: End here. (templated)
    :param need_approval: Ask; without it, whoever started the run has said yes by that. Where there
        are ``allowed_approvers``, it cannot be turned off. (templated)
    """

    template_fields: Sequence[str] = (
        *QuestionOperator.template_fields,
        "is_dry_run",
        "need_approval",
    )

    def __init__(
        self,
        *,
        preflight_task_id: str,
        is_dry_run: bool | str = False,
        need_approval: bool | str = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.preflight_task_id = preflight_task_id
        self.is_dry_run = is_dry_run
        self.need_approval = need_approval

    def execute(self, context: Context) -> Any:
        ti = context["ti"]
        ended = ti.xcom_pull(task_ids=self.preflight_task_id, key=ENDED_XCOM_KEY)
        report = ti.xcom_pull(task_ids=self.preflight_task_id, key=REPORT_XCOM_KEY) or {}
        if not ended and truth(self.is_dry_run, "dry_run"):
            ended = "This was a dry run: nothing was begun."
        if ended:
            self.end(context, ended)
            raise AirflowSkipException(ended)
        if report.get("resumes"):
            self.log.info("Change %s was approved when it was begun.", report["resumes"])
            return None
        if not self.allowed_approvers and not truth(self.need_approval, "need_approval"):
            self.log.info("No approval is asked for.")
            return None
        return self.ask(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        no = self.said_no(event)
        if no:
            self.end(context, no)
        return super().execute_complete(context, event)
