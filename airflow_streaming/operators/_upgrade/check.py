"""The task that runs the user's own checks on what a new deployment has done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.failures.text import presentable
from airflow_streaming.operators._gate.common import REPORT_XCOM_KEY
from airflow_streaming.operators._upgrade.run import WRONG_XCOM_KEY, found_change, pulled
from airflow_streaming.operators._upgrade.task import UpgradeTask

if TYPE_CHECKING:
    from airflow.sdk import Context

PASSED_XCOM_KEY: Final = "passed"
"""XCom that is there when every check has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """
    What a check is given: an upgrade whose new deployment has soaked and may still be taken back.

    :param deployment: The new one; ``replaced`` is the one before it.
    :param begun_at: When the upgrade began.
    :param context: Airflow's context, for connections and variables.
    """

    stream: str
    home: str
    change: int
    deployment: Deployment
    replaced: Deployment
    begun_at: datetime
    context: Any


Check = Callable[[Soaked], bool | str | None]
"""
Looks at what a new deployment has written. ``None``, ``True`` and an empty text say that it is well;
``False``, or a text that says what is wrong, has the upgrade rolled back. An exception is none of
them: the task is tried again, and at last it counts as wrong.
"""


class UpgradeCheckOperator(UpgradeTask):
    """
    Run checks on what a new deployment has done, before it is kept.

    The task fails with what a check has found, and the task that settles the upgrade takes it back.

    :param checks: Each is called with a ``Soaked``.
    :param preflight_task_id: The task of the same run that made the report.
    """

    def __init__(self, *, checks: Sequence[Check], preflight_task_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checks = tuple(checks)
        self.preflight_task_id = preflight_task_id

    def on_event(self, context: Context, event: dict[str, Any]) -> int:
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
        context["ti"].xcom_push(key=PASSED_XCOM_KEY, value=True)
        return len(self.checks)

    @staticmethod
    def _answer(check: Check, soaked: Soaked, context: Context) -> bool | str | None:
        try:
            return check(soaked)
        except Exception as err:
            said = presentable(f"{type(err).__name__}: {err}")
            wrong = f"Check {name_of(check)!r} came to no end: {said}"
            context["ti"].xcom_push(key=WRONG_XCOM_KEY, value=wrong)
            raise

    def _soaked(self, context: Context) -> Soaked:
        home = self.hook(context).home
        report = pulled(context, self.preflight_task_id, REPORT_XCOM_KEY)
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
    """Return what is wrong by a check's answer, in a sentence; empty when nothing is."""
    if answer is None or answer is True or answer == "":
        return ""
    return f"Check {name_of(check)!r}: {answer if isinstance(answer, str) else 'it said no.'}"


def name_of(check: Callable[..., object]) -> str:
    """Return what a check is called."""
    return getattr(check, "__name__", None) or type(check).__name__
