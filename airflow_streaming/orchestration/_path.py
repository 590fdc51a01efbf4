"""The tasks of an upgrade, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow.sdk import BaseOperator, TriggerRule

from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.terms import SoakTerms
from airflow_streaming.operators._upgrade.check import Check
from airflow_streaming.operators.upgrade import (
    UpgradeApprovalOperator,
    UpgradeCheckOperator,
    UpgradePreflightOperator,
    UpgradeRehearsalOperator,
    UpgradeSettleOperator,
    UpgradeStepOperator,
)
from airflow_streaming.orchestration import form

if TYPE_CHECKING:
    from airflow_streaming.checkpoint.sink_rewind import AuthorsRewind

Task = TypeVar("Task", bound=BaseOperator)

_NO_PATIENCE: Final = timedelta(0)
"""A soak takes minutes, so its task waits deferred from the start."""

_STARTING: Final = timedelta(minutes=1)
"""Added to the grace of a stop: the exchange keeps its worker until the new driver is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    What an author wants of every change: connections, who is asked, and what the stream becomes.

    :param edits: Arguments of every task that say what the stream becomes.
    """

    conn_id: str
    home_conn_id: str | None
    backup_store: str | None
    approvers: Sequence[str]
    need_approval: bool | str
    dry_run: bool | str
    approval_timeout: timedelta | None = timedelta(days=1)
    approval_notifiers: Sequence[Any] = ()
    edits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def for_tasks(self) -> dict[str, Any]:
        """Return the arguments of every task on the stream but the stream itself."""
        return {
            "conn_id": self.conn_id,
            "home_conn_id": self.home_conn_id,
            "backup_store": self.backup_store,
            **self.edits,
        }

    @property
    def for_questions(self) -> dict[str, Any]:
        """Return the arguments of every task in which a person is asked."""
        return {
            "approvers": form.APPROVERS_FROM_FORM,
            "allowed_approvers": self.approvers,
            "response_timeout": self.approval_timeout,
            "notifiers": list(self.approval_notifiers),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes(Asked):
    """
    What an author wants of an upgrade; the fields are the parameters of ``upgrade_in_place``.

    :param preflight: Arguments of the preflight alone.
    """

    stream: StreamSpec
    soak: SoakTerms
    checks: Sequence[Check] = ()
    rewind_sink: AuthorsRewind | None = None
    preflight: Mapping[str, Any] = field(default_factory=dict)

    @property
    def for_all(self) -> dict[str, Any]:
        """Return the arguments of every task on the stream."""
        return {"stream": self.stream, "rewind_sink": self.rewind_sink, **self.for_tasks}


class Chain:
    """Strings tasks together, one after the other."""

    _last: BaseOperator

    def _then(self, task: Task) -> Task:
        self._last >> task
        self._last = task
        return task


class Path(Chain):
    """
    Strings the tasks together, inside the task group that is open.

    :param wishes: What the author wants.
    """

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._preflight = UpgradePreflightOperator(
            task_id="preflight",
            soak=wishes.soak,
            is_dry_run=wishes.dry_run,
            # Where the author has named approvers, somebody is always asked.
            asks_person=True if wishes.approvers else wishes.need_approval,
            **wishes.preflight,
            **wishes.for_all,
        )
        self._last: BaseOperator = self._preflight
        self._pages = [page_of(self._preflight.task_id)]

    def rehearse(self, **how: Any) -> None:
        """Let it be run on a copy before anybody is asked; with arguments of the rehearsal."""
        wishes = self._wishes
        rehearsal = UpgradeRehearsalOperator(
            task_id="rehearse",
            preflight_task_id=self._preflight.task_id,
            stream=wishes.stream,
            conn_id=wishes.conn_id,
            home_conn_id=wishes.home_conn_id,
            backup_store=wishes.backup_store,
            **how,
            **wishes.edits,
        )
        self._pages.append(page_of(rehearsal.task_id, "The rehearsal decides"))
        self._then(rehearsal)

    def finish(self) -> None:
        """Add what comes after the looks: the question, the exchange, the soak, and the end."""
        approve = self._approve()
        back_up = self._step("back_up", Stage.BACKED_UP)
        patience = self._wishes.stream.stop_grace + _STARTING
        switch = self._step("switch", Stage.LAUNCHED, patience=patience)
        soak = self._step("soak", Stage.JUDGED, patience=_NO_PATIENCE)
        check = self._check() if self._wishes.checks else None
        self._then(
            UpgradeSettleOperator(
                task_id="settle",
                preflight_task_id=self._preflight.task_id,
                approve_task_id=approve.task_id,
                soak_task_id=soak.task_id,
                step_task_ids=(back_up.task_id, switch.task_id),
                check_task_id=None if check is None else check.task_id,
                **self._wishes.for_all,
            )
        )

    def _approve(self) -> UpgradeApprovalOperator:
        wishes = self._wishes
        return self._then(
            UpgradeApprovalOperator(
                task_id="approve",
                preflight_task_id=self._preflight.task_id,
                subject="Upgrade stream " + wishes.stream.name + "?",
                body="".join(self._pages),
                is_dry_run=wishes.dry_run,
                need_approval=wishes.need_approval,
                **wishes.for_questions,
                # A rehearsal that was not needed is skipped; one that failed ends it here.
                trigger_rule=TriggerRule.NONE_FAILED,
            )
        )

    def _step(self, task_id: str, until: Stage, **more: Any) -> UpgradeStepOperator:
        return self._then(
            UpgradeStepOperator(
                task_id=task_id,
                until=until,
                preflight_task_id=self._preflight.task_id,
                soak=self._wishes.soak,
                soak_minutes=form.SOAK_FROM_FORM,
                **self._wishes.for_all,
                **more,
            )
        )

    def _check(self) -> UpgradeCheckOperator:
        return self._then(
            UpgradeCheckOperator(
                task_id="checks",
                checks=self._wishes.checks,
                preflight_task_id=self._preflight.task_id,
                **self._wishes.for_all,
            )
        )


def page_of(task_id: str, decides: str = "") -> str:
    """Return the template of a task's page; with its decision below, where it has one to tell."""
    pull = "ti.xcom_pull(task_ids='" + task_id + "'"
    page = "{{ " + pull + ", key='markdown') or '' }}\n"
    if not decides:
        return page
    told = "{{ (" + pull + ") or '') | replace('_', ' ') }}"
    return page + "{% if " + pull + ") %}\n**" + decides + ": " + told + ".**\n{% endif %}"
