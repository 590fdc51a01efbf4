"""
The upgrade in place as a task group.

Preflight, perhaps rehearse, approve, back up, exchange the deployment, soak, check, and keep or
roll back. Nothing changes before the approval. The last task runs after success and failure of the
others and ends the upgrade. One task stops and starts the driver, because two tasks would add the
time that Airflow needs to start the second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow.sdk import BaseOperator, TaskGroup, TriggerRule

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.records.upgrade_table import Stage
from airflow_streaming.operators.common.form_edits import check_sizes
from airflow_streaming.operators.rehearsal import UpgradeRehearsalOperator
from airflow_streaming.operators.upgrade import (
    UpgradeApprovalOperator,
    UpgradeCheckOperator,
    UpgradeFinishOperator,
    UpgradeStepOperator,
)
from airflow_streaming.operators.upgrade_preflight import UpgradePreflightOperator
from airflow_streaming.options import (
    Approval,
    ChangeOptions,
    Check,
    Connections,
    CutoverApproval,
    RestartOptions,
    UpgradeOptions,
    plain,
)
from airflow_streaming.orchestration import form
from airflow_streaming.spec import StreamSpec

if TYPE_CHECKING:
    from airflow_streaming.model.arguments.rewinding import AuthorsRewind

__all__ = ["rescale", "rolling_restart", "upgrade_in_place"]

Task = TypeVar("Task", bound=BaseOperator)
_NO_PATIENCE: Final = timedelta(0)
"""A soak takes minutes, so its task waits deferred from the start."""
_STARTING: Final = timedelta(minutes=1)
"""Added to the grace of a stop: the exchange keeps its worker until the new driver is started."""

_GROUP_ID: Final = re.compile(r"[\w-]{1,100}")

KILLED_WORKERS: Final[Mapping[str, Any]] = {"retries": 3, "retry_delay": timedelta(seconds=10)}
"""Of every task: an author's own default_args would take these retries away, and with them the
promise that a killed worker costs nothing but time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSettings:
    """
    The author's settings of every change.

    :param approval: ``ask`` or ``auto`` by step.
    :param edits: Arguments of every task that change the stream.
    """

    conn_id: str
    home_conn_id: str | None
    backup_store: str | None
    approvers: Sequence[str]
    approval: CutoverApproval
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
        """Return the arguments of every task that asks for an approval."""
        return {
            "approvers": form.APPROVERS_FROM_FORM,
            "allowed_approvers": self.approvers,
            "response_timeout": self.approval_timeout,
            "notifiers": list(self.approval_notifiers),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest(ChangeSettings):
    """
    The author's settings of an upgrade, with the templates of its form.

    :param preflight: Arguments of the preflight alone.
    """

    stream: StreamSpec
    soak: SoakTerms
    checks: Sequence[Check] = ()
    rewind_with: AuthorsRewind | None = None
    preflight: Mapping[str, Any] = field(default_factory=dict)

    @property
    def for_all(self) -> dict[str, Any]:
        """Return the arguments of every task on the stream."""
        return {"stream": self.stream, "rewind_with": self.rewind_with, **self.for_tasks}


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

    :param wishes: The author's settings.
    """

    def __init__(self, wishes: UpgradeRequest) -> None:
        self._wishes = wishes
        self._preflight = UpgradePreflightOperator(
            task_id="preflight",
            soak=wishes.soak,
            soak_minutes=form.SOAK_FROM_FORM,
            dry_run=wishes.dry_run,
            # Where the author has named approvers, an approval is always asked for.
            approval={
                "begin": Approval.ASK.value if wishes.approvers else wishes.approval["begin"]
            },
            **wishes.preflight,
            **wishes.for_all,
        )
        self._last: BaseOperator = self._preflight
        self._pages = [page_of(self._preflight.task_id)]

    def rehearse(self, **how: Any) -> None:
        """Rehearse on a copy before the approval; ``how`` are arguments of the rehearsal."""
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
        """Add the tasks after preflight and rehearsal: the question, the exchange, the soak, and the end."""
        approve = self._approve()
        back_up = self._step("back_up", Stage.READY)
        patience = self._wishes.stream.stop_grace + _STARTING
        switch = self._step("switch", Stage.LAUNCHED, patience=patience)
        soak = self._step("soak", Stage.JUDGED, patience=_NO_PATIENCE)
        check = self._check() if self._wishes.checks else None
        self._then(
            UpgradeFinishOperator(
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
                home=wishes.stream.home,
                stream=wishes.stream.name,
                home_conn_id=wishes.home_conn_id,
                subject="Upgrade stream " + wishes.stream.name + "?",
                body="".join(self._pages),
                dry_run=wishes.dry_run,
                approval={"begin": wishes.approval["begin"]},
                **wishes.for_questions,
                # An unneeded rehearsal is skipped, and a failed rehearsal ends the run here.
                trigger_rule=TriggerRule.NONE_FAILED,
            )
        )

    def _step(self, task_id: str, until: Stage, **more: Any) -> UpgradeStepOperator:
        return self._then(
            UpgradeStepOperator(
                task_id=task_id,
                until=until,
                preflight_task_id=self._preflight.task_id,
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


@checked
def group_of(group_id: str, tooltip: str) -> TaskGroup:
    """
    Return a task group of a change.

    :raises SpecError: Airflow does not take that id.
    """
    if not _GROUP_ID.fullmatch(group_id):
        raise SpecError(
            f"group_id is {group_id!r:.80}; give up to 100 letters, digits, dashes and underscores."
        )
    return TaskGroup(
        group_id,
        tooltip=tooltip,
        default_args=KILLED_WORKERS,  # type: ignore[arg-type] # attrs hides the type behind a converter
    )


@checked
def upgrade_in_place(
    stream: StreamSpec,
    options: UpgradeOptions = UpgradeOptions(),
    *,
    connections: Connections = Connections(),
    group_id: str = "upgrade",
) -> TaskGroup:
    """
    Upgrade a stream to another runtime, script or configuration, and roll back a failed upgrade.

    In a dag with ``params=upgrade_params(stream)`` the user who starts a run chooses; a dag without
    them gives the options. By default it is a dry run.

    :param stream: The stream, as its keep-alive dag has it.
    :param options: Without them the form decides.
    :param connections: How its tasks reach Spark, the home and the backups.
    :param group_id: Prefix of the tasks.
    :raises SpecError: an argument is of another kind.
    """
    rehearsal = options.rehearsal
    when = plain(chosen(rehearsal.when, form.REHEARSE_FROM_FORM))
    return _build(
        UpgradeRequest(
            stream=stream,
            **asked_of(options, connections, form.APPROVAL_FROM_FORM),
            soak=options.soak or SoakTerms(),
            checks=tuple(options.checks),
            rewind_with=options.rewind_with,
            preflight={
                "sink_habits": habits_of(options),
                "accept": chosen(options.accept, form.ACCEPT_FROM_FORM),
                "prewarm": chosen(options.prewarm, form.PREWARM_FROM_FORM),
                "migrate": chosen(options.migrate, form.MIGRATE_FROM_FORM),
                "migration_plan": options.migration_plan,
                "rehearsal": rehearsal,
                "rehearsal_minutes": form.REHEARSAL_MINUTES_FROM_FORM,
                "when": when,
                "backup_id": rehearsal.backup_id,
            },
            edits=dict(form.FROM_FORM if options.edits is None else options.edits),
        ),
        group_id,
        lambda path: path.rehearse(
            when=when,
            batches=rehearsal.batches,
            backup_id=rehearsal.backup_id,
            time_limit=rehearsal.time_limit,
            rehearsal_minutes=form.REHEARSAL_MINUTES_FROM_FORM,
            compare=rehearsal.compare,
            passing=[plain(answer) for answer in rehearsal.passing],
        ),
        tooltip="Another runtime, script or configuration on the same checkpoint; can be rolled back.",
    )


@checked
def rolling_restart(
    stream: StreamSpec,
    options: RestartOptions = RestartOptions(),
    *,
    size: Mapping[str, Any] | None = None,
    connections: Connections = Connections(),
    group_id: str = "restart",
) -> TaskGroup:
    """
    Restart a stream with the same code and Spark: another configuration, or none at all.

    It is the path of an upgrade without a rehearsal; a changed script, or another minor version of
    Spark, is refused.

    :param stream: The stream, as its keep-alive dag has it.
    :param options: Without them the form decides.
    :param size: Changes of the size; see ``rescale``.
    :param connections: How its tasks reach Spark, the home and the backups.
    :param group_id: Prefix of the tasks.
    :raises SpecError: an option or a size is wrong; the task checks templates.
    """
    check_sizes(stream, size or {})
    conf = chosen(options.conf, form.FROM_FORM["conf"])
    return _build(
        UpgradeRequest(
            stream=stream,
            **asked_of(options, connections, form.RESTART_APPROVAL_FROM_FORM),
            soak=options.soak or SoakTerms(),
            checks=tuple(options.checks),
            rewind_with=options.rewind_with,
            preflight={
                "same_code": True,
                "even_if_equal": True,
                "repartitions": bool(size),
                "prewarm": chosen(options.prewarm, form.PREWARM_FROM_FORM),
                "accept": chosen(options.accept, form.ACCEPT_FROM_FORM),
                "sink_habits": habits_of(options),
            },
            edits={"conf": conf, "size": dict(size or {})},
        ),
        group_id,
        None,
        tooltip="The same code and Spark, started again with another configuration.",
    )


@checked
def rescale(
    stream: StreamSpec,
    options: RestartOptions = RestartOptions(),
    *,
    size: Mapping[str, Any] = form.SIZE_FROM_FORM,
    connections: Connections = Connections(),
    group_id: str = "rescale",
) -> TaskGroup:
    """
    Restart a stream with another size.

    :param options: As for ``rolling_restart``.
    :param size: ``executors``, ``executor_cores``, ``executor_memory`` and ``shuffle_partitions``;
        empty ones stay; templated. ``executors`` may be ``advised``: the number that the recent batches
        need, which the preflight reports, or refuses where they need no other. State gets
        ``shuffle_partitions`` too where Spark can do it (4.2 and newer, RocksDB): while the stream is
        down, between the backup and the new epoch. Where it cannot, the report says why, and state
        keeps the partitions of its checkpoint.
    """
    return rolling_restart(stream, options, size=size, connections=connections, group_id=group_id)


def chosen(given: Any, from_form: Any) -> Any:
    """Return the author's value, or the template of the form without one."""
    return from_form if given is None else given


def asked_of(
    options: ChangeOptions, connections: Connections, approval_from_form: Mapping[str, str]
) -> dict[str, Any]:
    """
    Return the arguments of a request that all changes have; see ``ChangeSettings``.

    :param approval_from_form: Templates of the steps that may need a user.
    """
    given: Mapping[str, Any] = dict(options.approval or {})
    return {
        "conn_id": connections.conn_id,
        "home_conn_id": connections.home_conn_id,
        "backup_store": connections.backup_store,
        "approvers": tuple(options.approvers),
        "approval": {
            step: plain(given.get(step, template)) for step, template in approval_from_form.items()
        },
        "dry_run": chosen(options.dry_run, form.DRY_RUN_FROM_FORM),
        "approval_timeout": options.approval_timeout,
        "approval_notifiers": tuple(options.approval_notifiers),
    }


def habits_of(options: ChangeOptions) -> dict[str, str]:
    """Return what each sink does with a batch id that it has seen, by the query's name."""
    return {query: plain(habit) for query, habit in options.sink_habits.items()}


def _build(
    wishes: UpgradeRequest, group_id: str, rehearse: Callable[[Path], None] | None, *, tooltip: str
) -> TaskGroup:
    with group_of(group_id, tooltip) as group:
        path = Path(wishes)
        if rehearse is not None:
            rehearse(path)
        path.finish()
    return group
