"""The rehearsal of an upgrade: run when it is wanted, or when the gates do not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators._gate.common import REPORT_XCOM_KEY
from airflow_streaming.operators._gate.rehearsal import RehearsalOperator
from airflow_streaming.operators._upgrade.run import pulled

if TYPE_CHECKING:
    from airflow.sdk import Context

WHEN_UNKNOWN: Final = "when_unknown"
ALWAYS: Final = "always"
NEVER: Final = "never"

CHOICES: Final = (WHEN_UNKNOWN, ALWAYS, NEVER)
"""When an upgrade is rehearsed."""


class UpgradeRehearsalOperator(RehearsalOperator):
    """
    Rehearse an upgrade before it is approved.

    It is skipped when no rehearsal is wanted and none is needed. What the gates do not know is only
    allowed after one, so it fails when one is needed and forbidden.

    :param preflight_task_id: The task whose report says whether one is needed.
    :param when: ``when_unknown``, ``always`` or ``never``. (templated)
    """

    template_fields: Sequence[str] = (*RehearsalOperator.template_fields, "when")

    def __init__(
        self,
        *,
        preflight_task_id: str,
        when: str = WHEN_UNKNOWN,
        fail_on: str | None = "unknown",
        **kwargs: Any,
    ) -> None:
        super().__init__(fail_on=fail_on, **kwargs)
        self.preflight_task_id = preflight_task_id
        self.when = when
        if "{{" not in when:
            check_choice(when)

    def execute(self, context: Context) -> str:
        report = pulled(context, self.preflight_task_id, REPORT_XCOM_KEY) or {}
        is_needed = bool(report.get("has_to_be_rehearsed"))
        choice = check_choice(self.when)
        if report.get("resumes"):
            raise AirflowSkipException("The upgrade has been begun already.")
        if choice == NEVER and is_needed:
            raise AirflowFailException(
                f"The gates cannot say whether the upgrade of {self.subject} is sound, and no "
                "rehearsal is wanted. Start the run again and allow one."
            )
        if choice != ALWAYS and not is_needed:
            raise AirflowSkipException("The gates have answered everything.")
        return super().execute(context)


def check_choice(when: str) -> str:
    """
    Return when to rehearse, as a form says it.

    :raises SpecError: it is none of the choices.
    """
    if when not in CHOICES:
        raise SpecError(f"rehearse is {when!r}; give {', '.join(CHOICES)}.")
    return when
