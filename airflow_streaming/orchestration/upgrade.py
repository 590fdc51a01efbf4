"""
The upgrade in place as a task group.

Look, perhaps rehearse, ask a person, back up, exchange the deployment, soak, check, and keep or go
back. Nothing is done before the person has said yes, and nothing that was begun is left without its
end: the last task runs whatever became of the others. Stopping and starting is one task, because
between two tasks a stream would stand still for as long as Airflow needs to start the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import TaskGroup

from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.core.upgrade.terms import SoakTerms
from airflow_streaming.operators._upgrade.check import Check
from airflow_streaming.orchestration import form
from airflow_streaming.orchestration._path import Path, Wishes

if TYPE_CHECKING:
    from airflow_streaming.checkpoint.sink_rewind import AuthorsRewind

KILLED_WORKERS: Final[Mapping[str, Any]] = {"retries": 3, "retry_delay": timedelta(seconds=10)}
"""Of every task: an author's own default_args would take these retries away, and with them the
promise that a killed worker costs nothing but time."""


def upgrade_in_place(
    stream: StreamSpec,
    *,
    conn_id: str = "spark_default",
    home_conn_id: str | None = None,
    backup_store: str | None = None,
    soak: SoakTerms | None = None,
    approvers: Sequence[str] = (),
    need_approval: bool | str = form.APPROVAL_FROM_FORM,
    approval_timeout: timedelta | None = timedelta(days=1),
    approval_notifiers: Sequence[Any] = (),
    dry_run: bool | str = form.DRY_RUN_FROM_FORM,
    rehearse: str = form.REHEARSE_FROM_FORM,
    rehearsal_batches: int = 5,
    rehearsal_backup: str | None = None,
    rehearsal_time: timedelta = timedelta(minutes=10),
    checks: Sequence[Check] = (),
    rewind_sink: AuthorsRewind | None = None,
    sink_habits: Mapping[str, str] | None = None,
    accept_replay: bool = False,
    needs_way_back: bool = True,
    edits: Mapping[str, Any] = form.FROM_FORM,
    group_id: str = "upgrade",
) -> TaskGroup:
    """
    Upgrade a stream to another runtime, script or configuration, and take it back if it is no good.

    In a dag with ``params=upgrade_params(stream)`` the person who starts a run chooses; a dag
    without them gives the arguments. By default it is a dry run.

    :param stream: The stream, as its keep-alive dag has it.
    :param conn_id: Spark connection of the apache-spark provider.
    :param home_conn_id: Connection with credentials for the home.
    :param backup_store: URI of the backups; ``<home>/_backups`` when not given.
    :param soak: What the new deployment has to show before it is kept.
    :param approvers: Ids of the users who may approve; whoever starts a run may name fewer and not
        do without them. Empty: the form decides.
    :param need_approval: Ask a person; templated.
    :param approval_timeout: Silence for so long is a no.
    :param approval_notifiers: Notifiers that tell people they are asked.
    :param dry_run: Look and report, and do nothing; templated.
    :param rehearse: ``when_unknown``, ``always`` or ``never``; templated.
    :param rehearsal_batches: Batches of each query in the rehearsal; 0 for one replayed batch.
    :param rehearsal_backup: Id of the backup to rehearse on, or ``newest``; a copy of the live
        checkpoints when not given.
    :param rehearsal_time: The most that the rehearsal's queries may take.
    :param checks: Called with a ``Soaked`` when the soak was good; one that finds something wrong
        has the upgrade rolled back.
    :param rewind_sink: Takes batches back out of a sink that is no file sink; see ``Rewinding``.
    :param sink_habits: What a sink does with a batch id that it has seen, by the query's name:
        ``overwrites``, ``remembers``, ``appends`` or ``nothing``.
    :param accept_replay: Rows that come twice after a rollback are accepted.
    :param needs_way_back: Refuse an upgrade that could not be taken back.
    :param edits: ``runtime``, ``application`` and ``conf`` to go to; templated.
    :param group_id: Prefix of the tasks.
    """
    return _build(
        Wishes(
            stream=stream,
            conn_id=conn_id,
            home_conn_id=home_conn_id,
            backup_store=backup_store,
            soak=soak or SoakTerms(),
            approvers=tuple(approvers),
            need_approval=need_approval,
            approval_timeout=approval_timeout,
            approval_notifiers=tuple(approval_notifiers),
            dry_run=dry_run,
            checks=tuple(checks),
            rewind_sink=rewind_sink,
            preflight={
                "sink_habits": dict(sink_habits or {}),
                "accept_replay": accept_replay,
                "needs_way_back": needs_way_back,
            },
            edits=dict(edits),
        ),
        group_id,
        lambda path: path.rehearse(
            when=rehearse,
            batches=rehearsal_batches,
            backup_id=rehearsal_backup,
            time_limit=rehearsal_time,
        ),
        tooltip="Another runtime, script or configuration on the same checkpoint, with a way back.",
    )


def rolling_restart(
    stream: StreamSpec,
    *,
    conn_id: str = "spark_default",
    home_conn_id: str | None = None,
    backup_store: str | None = None,
    soak: SoakTerms | None = None,
    approvers: Sequence[str] = (),
    need_approval: bool | str = "{{ params.get('need_approval', False) }}",
    dry_run: bool | str = form.DRY_RUN_FROM_FORM,
    checks: Sequence[Check] = (),
    rewind_sink: AuthorsRewind | None = None,
    sink_habits: Mapping[str, str] | None = None,
    conf: Mapping[str, Any] | str = form.FROM_FORM["conf"],
    size: Mapping[str, Any] | None = None,
    group_id: str = "restart",
) -> TaskGroup:
    """
    Restart a stream with the same code and Spark: another configuration, or none at all.

    It is the path of an upgrade without a rehearsal; a changed script, or another minor version of
    Spark, is refused. The parameters are those of ``upgrade_in_place``.

    :param conf: Changes of the configuration; templated.
    :param size: Changes of what it runs with; see ``rescale``.
    """
    return _build(
        Wishes(
            stream=stream,
            conn_id=conn_id,
            home_conn_id=home_conn_id,
            backup_store=backup_store,
            soak=soak or SoakTerms(),
            approvers=tuple(approvers),
            need_approval=need_approval,
            dry_run=dry_run,
            checks=tuple(checks),
            rewind_sink=rewind_sink,
            preflight={
                "same_code": True,
                "even_if_equal": True,
                "needs_way_back": False,
                "sink_habits": dict(sink_habits or {}),
            },
            edits={"conf": conf, "size": dict(size or {})},
        ),
        group_id,
        None,
        tooltip="The same code and Spark, started again with another configuration.",
    )


def rescale(
    stream: StreamSpec,
    *,
    size: Mapping[str, Any] = form.SIZE_FROM_FORM,
    group_id: str = "rescale",
    **restart: Any,
) -> TaskGroup:
    """
    Restart a stream with another size.

    :param size: ``executors``, ``executor_cores``, ``executor_memory`` and ``shuffle_partitions``;
        empty ones stay; templated. ``executors`` may be ``advised``: what the recent batches call
        for, told by the preflight, or refused where they call for nothing else. A query with state keeps the partitions that its checkpoint was
        made with, so another number is refused with the way out.
    :param restart: The parameters of ``rolling_restart``.
    """
    return rolling_restart(stream, size=size, group_id=group_id, **restart)


def _build(
    wishes: Wishes, group_id: str, rehearse: Callable[[Path], None] | None, *, tooltip: str
) -> TaskGroup:
    with TaskGroup(
        group_id,
        tooltip=tooltip,
        default_args=KILLED_WORKERS,  # type: ignore[arg-type] # attrs hides the type behind a converter
    ) as group:
        path = Path(wishes)
        if rehearse is not None:
            rehearse(path)
        path.finish()
    return group
