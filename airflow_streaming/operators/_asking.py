"""The question to a person: who may answer, and what becomes of an answer that came too fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.operators._upgrade.run import ENDED_XCOM_KEY
from airflow_streaming.triggers.answer import AnswerTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class QuestionOperator(ApprovalOperator):
    """
    Ask a person yes or no; silence until ``response_timeout`` is a no.

    Airflow itself sees to it that only the assigned users may answer.

    Who answers within a few seconds of the question is too fast for Airflow: its scheduler meets the
    task queued again before it has heard that the worker which asked has ended, takes it for killed,
    and fails the try. The next try reads the answer that was given instead of asking once more (an
    Airflow operator would drop it). It is read by the triggerer, the only one who can, and only in a
    retry: when a person clears the task, he is asked anew.

    :param approvers: Who may answer, as ids of Airflow's users, a list or a text with commas; empty
        for everybody who may edit the dag. (templated)
    :param allowed_approvers: The most that ``approvers`` may name, so that nobody makes himself an
        approver in a form.
    """

    template_fields: Sequence[str] = (*ApprovalOperator.template_fields, "approvers")

    def __init__(
        self,
        *,
        approvers: Sequence[str] | str = (),
        allowed_approvers: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        if kwargs.get("response_timeout") is not None:
            # Silence is a no: the task then ends like one instead of failing.
            kwargs.setdefault("defaults", self.REJECT)
        super().__init__(**kwargs)
        self.approvers = approvers
        self.allowed_approvers = tuple(allowed_approvers)

    def ask(self, context: Context) -> Any:
        """Ask, or read the answer that an earlier try was given."""
        self.assigned_users = [{"id": name, "name": name} for name in self._who_may_answer()]
        if is_retry(context["ti"], self.retries):
            self.defer(trigger=AnswerTrigger(ti_id=str(context["ti"].id)), method_name="on_answer")
        return super().execute(context)

    def on_answer(self, context: Context, event: dict[str, Any]) -> Any:
        """Take the answer that an earlier try was given; ask again where there is none."""
        if event.get("chosen_options"):
            self.log.info("It was answered already, in an earlier try.")
            return self.execute_complete(context, event)
        self.assigned_users = [{"id": name, "name": name} for name in self._who_may_answer()]
        return super().execute(context)

    def said_no(self, event: dict[str, Any]) -> str:
        """Return who said no, in a sentence; empty for a yes, and for what is no answer."""
        if self.REJECT not in event.get("chosen_options", ()):
            return ""
        name = answered_by(event)
        return f"{name} said no." if name else "Nobody approved it in time."

    def end(self, context: Context, reason: str) -> None:
        """Tell the tasks after this one that nothing is to be begun."""
        self.log.info("%s", reason)
        context["ti"].xcom_push(key=ENDED_XCOM_KEY, value=reason)

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


def answered_by(event: dict[str, Any]) -> str:
    """Return who has answered; empty when nobody did in time."""
    user = event.get("responded_by_user") or {}
    return str(user.get("name") or user.get("id") or "")


def is_retry(ti: Any, retries: int | None) -> bool:
    """
    Tell whether this try follows one that failed by itself.

    Airflow allows a task that was cleared more tries than it has retries.
    """
    return bool(ti.try_number > 1 and ti.max_tries == retries)
