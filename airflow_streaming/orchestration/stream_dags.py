"""
One call per stream: all its dags, with good names, pages, forms and tags.

All of them are available as single operators and task groups; for another order, compose your own
dags of the same parts.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, get_type_hints

from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.exceptions import AirflowTimetableInvalid

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import checked, is_template
from airflow_streaming.model.names import check_is_stream
from airflow_streaming.operators.backup import CheckpointBackupOperator, CheckpointRetentionOperator
from airflow_streaming.operators.prune import StreamPruneOperator
from airflow_streaming.operators.restore import CheckpointRestoreOperator, CheckpointVerifyOperator
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.options import (
    Approval,
    BackupLevel,
    BackupOptions,
    ChangeApproval,
    ChangeOptions,
    Connections,
    CutoverApproval,
    CutoverOptions,
    FreshnessOptions,
    PartitionOptions,
    PruneOptions,
    RestartOptions,
    UpgradeOptions,
)
from airflow_streaming.orchestration.blue_green import blue_green
from airflow_streaming.orchestration.cutover_form import cutover_params
from airflow_streaming.orchestration.dag_docs import (
    announce_page,
    backup_page,
    blue_green_page,
    freshness_page,
    keep_alive_page,
    prune_page,
    rescale_page,
    restore_page,
    upgrade_page,
    windows_page,
)
from airflow_streaming.orchestration.form import (
    ACCEPT_FROM_FORM,
    BACKUP_FROM_FORM,
    DRY_RUN_FROM_FORM,
    LEVEL_FROM_FORM,
    REASON_FROM_FORM,
    REWIND_FROM_FORM,
    rescale_params,
    restore_params,
    upgrade_params,
)
from airflow_streaming.orchestration.upgrade import rescale, upgrade_in_place
from airflow_streaming.spec import SoakTerms, StreamSpec

__all__ = ["stream_dags"]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Airflow gives a second run to a dag that follows itself only when it has a start date."""
CUTOVER_RUNS: Final = 8
"""Runs of a cutover at once: a run that waits to retire its blue must not hold up the next run. The home lets only
one run move the stream."""
RETRIES: Final[Mapping[str, Any]] = {"retries": 2, "retry_delay": timedelta(minutes=2)}
"""Of tasks that need no Spark and may be tried again at once."""
_REPLACED: Final[Mapping[str, Sequence[str]]] = {
    "accept": ("accept",),
    "dry_run": ("dry_run",),
    "edits": ("runtime", "application", "conf"),
    "migrate": ("migrate",),
    "replay_from": ("replay_from",),
}
"""Fields of a form that an option replaces."""
Options = TypeVar("Options", bound=ChangeOptions)


@checked
def stream_dags(
    stream: StreamSpec,
    *,
    upgrade: UpgradeOptions = UpgradeOptions(),
    cutover: CutoverOptions = CutoverOptions(),
    backup: BackupOptions = BackupOptions(),
    prune: PruneOptions | None = None,
    partitions: PartitionOptions | None = None,
    freshness: FreshnessOptions | None = None,
    soak: SoakTerms | None = None,
    approvers: Sequence[str] = (),
    approval: CutoverApproval | None = None,
    keep_alive: Mapping[str, Any] | None = None,
    connections: Connections = Connections(),
    tags: Sequence[str] = ("streaming",),
    pool: str | None = None,
    start_date: datetime = START,
) -> dict[str, DAG]:
    """
    Return the dags of one stream, by their ids; assign them with ``globals().update(...)``.

    ``<name>`` keeps it alive, ``<name>_upgrade`` upgrades it from a form, ``<name>_blue_green``
    runs another version beside it and switches, ``<name>_rescale`` restarts it with another size,
    ``<name>_backup`` backs it up, and ``<name>_restore`` verifies a backup and restores it.

    :param stream: The stream. Its dags have its name, so the name must not be a template.
    :param upgrade: Options of the upgrade, e.g. ``UpgradeOptions(checks=[has_written])``.
    :param cutover: Options of the cutover, e.g. ``CutoverOptions(compare=...)``. They are the first
        choices of the form.
    :param backup: When it is backed up, and which backups are kept.
    :param prune: Adds ``<name>_prune``, which removes old records and folders that are not needed,
        e.g. ``PruneOptions(policy=PrunePolicy(outputs=True))``.
    :param partitions: Adds ``<name>_windows``, which announces each complete window of event time as a
        partition of ``window_asset(...)``, and ``<name>_announce``, which announces a range once more.
    :param freshness: Options of ``<name>_freshness``, which measures the objective of a stream with
        ``freshness``.
    :param soak: Terms of the soak, for options without them.
    :param approvers: Ids of the users who may approve a change, for options without them.
    :param approval: Approval by step, for options without that step. An ``ask`` stays; an ``auto``
        is the first choice of the forms.
    :param keep_alive: More arguments of ``SparkStreamOperator``, e.g. ``on_gave_up``.
    :param connections: How the tasks reach Spark, the home and the backups.
    :param tags: Tags of every dag; the stream's name is added.
    :param pool: Airflow's pool of every task; by default Airflow's own. A deferred task, such as
        the keep-alive task, takes no slot unless the pool counts deferred tasks.
    :param start_date: Of every dag.
    :raises SpecError: the stream has the name of a lane or a template as its name; or options of
        the cutover contradict each other.
    """
    if "{" in stream.name:
        raise SpecError(
            f"The name of stream {stream.name!r} is a template, and dags need their names when "
            "they are parsed. Give the name itself."
        )
    check_is_stream(stream.name)
    _check_keep_alive(keep_alive or {})
    usual = {"soak": soak, "approvers": tuple(approvers)}
    of_all = _Shared(
        stream=stream,
        connections=connections,
        approval=approval or {},
        every={
            "start_date": start_date,
            "catchup": False,
            "max_active_runs": 1,
            "tags": [*tags, stream.name],
            "default_args": {} if pool is None else {"pool": pool},
        },
    )
    dags = [
        _keep_alive(of_all, keep_alive or {}),
        _upgrade(of_all, _filled(upgrade, usual)),
        _blue_green(of_all, _filled(cutover, usual)),
        _rescale(of_all, RestartOptions(soak=soak, approvers=tuple(approvers))),
        _backup(of_all, backup),
        _restore(of_all),
        *([] if prune is None else [_prune(of_all, prune)]),
        *(
            []
            if stream.freshness is None
            else [_freshness(of_all, freshness or FreshnessOptions())]
        ),
        *_of_windows(of_all, partitions),
    ]
    # A path that is relative to the dag starts at the author's file, not at this one.
    author = sys._getframe(2).f_code.co_filename  # beyond what checks the arguments
    for dag in dags:
        dag.fileloc = author
        _check_schedule(stream, dag)
    return {dag.dag_id: dag for dag in dags}


def _check_schedule(stream: StreamSpec, dag: DAG) -> None:
    # Airflow leaves out a dag whose schedule cannot be, and the stream would have no backups.
    try:
        dag.timetable.validate()
    except AirflowTimetableInvalid as err:
        raise SpecError(
            f"The schedule {dag.schedule!r:.80} of dag {dag.dag_id!r} of stream {stream.name!r} cannot be: "
            f"{err} Give a cron expression or a preset such as '@hourly'."
        ) from err


def _check_keep_alive(more: Mapping[str, Any]) -> None:
    known = {
        name
        for kind in SparkStreamOperator.__mro__
        if issubclass(kind, BaseOperator)
        for name in inspect.signature(kind.__init__).parameters
    } - {"self", "kwargs", "task_id", "stream", "dag", "task_group"}
    if odd := sorted(more.keys() - known):
        raise SpecError(
            f"keep_alive has {odd[0]!r:.80}, which SparkStreamOperator does not take or stream_dags sets "
            "itself. Remove it."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """
    Arguments that the dags of a stream share.

    :param every: Arguments of every dag.
    """

    stream: StreamSpec
    connections: Connections
    approval: CutoverApproval
    every: Mapping[str, Any]

    @property
    def places(self) -> dict[str, Any]:
        """Return the connections as arguments of an operator."""
        return {field.name: getattr(self.connections, field.name) for field in fields(Connections)}


def _filled(options: Options, usual: Mapping[str, Any]) -> Options:
    return replace(
        options, **{name: getattr(options, name) or value for name, value in usual.items()}
    )


def _keep_alive(of: _Shared, more: Mapping[str, Any]) -> DAG:
    stream = of.stream
    with DAG(
        stream.name,
        schedule="@continuous",
        # A stream that cannot even be launched fails every run at once; three in a row pause it.
        max_consecutive_failed_dag_runs=3,
        params={
            "restart": Param(
                False,
                type="boolean",
                title="Apply an edited stream",
                description="Stop the stream, deploy the DAG's current spec, start it: without the gates "
                f"and the rollback of {stream.name}_upgrade.",
            )
        },
        doc_md=keep_alive_page(stream),
        description=f"Keeps stream {stream.name} alive.",
        **of.every,
    ) as dag:
        SparkStreamOperator(task_id="stream", stream=stream, **{**of.places, **more})
    return dag


def _upgrade(of: _Shared, options: UpgradeOptions) -> DAG:
    stream, when = of.stream, options.rehearsal.when
    is_shown = when is not None and not is_template(when)
    rehearse: dict[str, Any] = {"rehearse": when} if is_shown else {}
    # A field of the form decides, with the option as its first choice.
    warms = options.prewarm if isinstance(options.prewarm, bool) else None
    with DAG(
        f"{stream.name}_upgrade",
        schedule=None,
        params=_shown(
            upgrade_params(stream, **_asking(of, options), **rehearse, prewarm=warms), options
        ),
        doc_md=upgrade_page(stream),
        description=f"Upgrades stream {stream.name} in place; can be rolled back.",
        **of.every,
    ) as dag:
        left = replace(
            options,
            rehearsal=replace(options.rehearsal, when=None if is_shown else when),
            prewarm=options.prewarm if warms is None else None,
            approval=_binding(_approval(of, options)),
        )
        upgrade_in_place(stream, left, connections=of.connections)
    return dag


def _shown(form: Mapping[str, Param], options: ChangeOptions) -> dict[str, Param]:
    given = [name for name in _REPLACED if getattr(options, name, None) is not None]
    hidden = {field for name in given for field in _REPLACED[name]}
    return {name: field for name, field in form.items() if name not in hidden}


def _asking(of: _Shared, options: ChangeOptions) -> dict[str, Any]:
    """Return the arguments of a form about approvals."""
    return {"approvers": options.approvers, "approval": _approval(of, options)}


def _approval(of: _Shared, options: ChangeOptions) -> Any:
    """Return the author's approvals by step; of ``stream_dags`` where the options have none."""
    steps = CutoverApproval if isinstance(options, CutoverOptions) else ChangeApproval
    given: dict[str, Any] = {**of.approval, **(options.approval or {})}
    return {step: word for step, word in given.items() if step in get_type_hints(steps)}


def _binding(approval: Mapping[str, Any]) -> Any:
    """Return the steps that a form cannot change: it may only ask for more approvals."""
    return {step: word for step, word in approval.items() if word != Approval.AUTO}


def _blue_green(of: _Shared, options: CutoverOptions) -> DAG:
    stream = of.stream
    given = {name: getattr(options, name) for name in ("way", "start")}
    values = {name: value for name, value in given.items() if value is not None}
    with DAG(
        f"{stream.name}_blue_green",
        schedule=None,
        params=_shown(cutover_params(stream, **_asking(of, options), **values), options),
        doc_md=blue_green_page(stream),
        description=f"Runs another version of stream {stream.name} beside it, and switches.",
        **{**of.every, "max_active_runs": CUTOVER_RUNS},
    ) as dag:
        left = replace(options, way=None, start=None, approval=_binding(_approval(of, options)))
        blue_green(stream, left, connections=of.connections)
    return dag


def _rescale(of: _Shared, options: RestartOptions) -> DAG:
    stream = of.stream
    with DAG(
        f"{stream.name}_rescale",
        schedule=None,
        params=rescale_params(
            **_asking(of, options),
            prewarm=stream.standby,
            form_policy=stream.form_policy,
        ),
        doc_md=rescale_page(stream),
        description=f"Restarts stream {stream.name} with another size.",
        **of.every,
    ) as dag:
        left = replace(options, approval=_binding(_approval(of, options)))
        rescale(stream, left, connections=of.connections)
    return dag


def _backups_of(of: _Shared) -> dict[str, Any]:
    """Return where the stream's backups are, as arguments of an operator."""
    return {
        "home": of.stream.home,
        "stream": of.stream.name,
        "store": of.connections.backup_store,
        "home_conn_id": of.connections.home_conn_id,
        "form_policy": of.stream.form_policy,
    }


def _restore(of: _Shared) -> DAG:
    stream = of.stream
    with DAG(
        f"{stream.name}_restore",
        schedule=None,
        params=restore_params(),
        doc_md=restore_page(stream),
        description=f"Verifies a backup of stream {stream.name} and restores the stream from it.",
        **of.every,
    ) as dag:
        verify = CheckpointVerifyOperator(
            task_id="verify", backup_id=BACKUP_FROM_FORM, level=LEVEL_FROM_FORM, **_backups_of(of)
        )
        # Restore the verified backup: a newer one may exist by now.
        restore = CheckpointRestoreOperator(
            task_id="restore",
            backup_id="{{ ti.xcom_pull(task_ids='verify') }}",
            dry_run=DRY_RUN_FROM_FORM,
            reason=REASON_FROM_FORM,
            accept=ACCEPT_FROM_FORM,
            rewind=REWIND_FROM_FORM,
            **_backups_of(of),
        )
        verify >> restore
    return dag


def _backup(of: _Shared, options: BackupOptions) -> DAG:
    stream = of.stream
    where = _backups_of(of)
    with DAG(
        f"{stream.name}_backup",
        schedule=options.schedule,
        doc_md=backup_page(stream),
        description=f"Backs up the checkpoints of stream {stream.name} while it runs.",
        **{**of.every, "default_args": {**of.every["default_args"], **RETRIES}},
    ) as dag:
        backup = CheckpointBackupOperator(
            task_id="backup", verify=BackupLevel.FULL, max_age=options.max_age, **where
        )
        # The sweep also removes leftovers of a killed backup.
        sweep = CheckpointRetentionOperator(
            task_id="retention", policy=options.retention, trigger_rule="all_done", **where
        )
        backup >> sweep
    return dag


def _prune(of: _Shared, options: PruneOptions) -> DAG:
    stream = of.stream
    with DAG(
        f"{stream.name}_prune",
        schedule=options.schedule,
        doc_md=prune_page(stream),
        description=f"Removes what of stream {stream.name} is old and not needed.",
        **{**of.every, "default_args": {**of.every["default_args"], **RETRIES}},
    ) as dag:
        StreamPruneOperator(
            task_id="prune",
            policy=options.policy,
            dry_run=options.dry_run,
            **_backups_of(of),
        )
    return dag


def _freshness(of: _Shared, options: FreshnessOptions) -> DAG:
    from airflow_streaming.operators.freshness import FreshnessOperator

    stream = of.stream
    with DAG(
        f"{stream.name}_freshness",
        schedule=options.schedule,
        doc_md=freshness_page(stream),
        description=f"Measures the freshness objective of stream {stream.name}.",
        **{**of.every, "default_args": {**of.every["default_args"], **RETRIES}},
    ) as dag:
        FreshnessOperator(
            task_id="freshness",
            stream=stream.name,
            home=stream.home,
            freshness=stream.freshness,
            on_late=options.on_late,
            on_recovered=options.on_recovered,
            home_conn_id=of.connections.home_conn_id,
        )
    return dag


def _of_windows(of: _Shared, options: PartitionOptions | None) -> list[DAG]:
    return [] if options is None else [_windows(of, options), _announce(of, options)]


def _windows(of: _Shared, options: PartitionOptions) -> DAG:
    from airflow_streaming.assets import window_asset  # only for streams with windows
    from airflow_streaming.operators.windows import ClosedWindowsOperator

    stream = of.stream
    asset = window_asset(
        *(stream.name, stream.home),
        every=options.every,
        query=options.query,
        name=options.asset,
    )
    with DAG(
        f"{stream.name}_windows",
        schedule="@continuous",
        doc_md=windows_page(stream, asset.name),
        description=f"Announces complete windows of stream {stream.name} as partitions.",
        **{**of.every, "default_args": {**of.every["default_args"], **RETRIES}},
    ) as dag:
        ClosedWindowsOperator(
            task_id="windows",
            asset=asset,
            since=options.since,
            content=options.content,
            recheck=options.recheck,
            roll_up=options.roll_up,
            **_series_of(of, options),
        )
    return dag


def _announce(of: _Shared, options: PartitionOptions) -> DAG:
    from airflow_streaming.operators.windows import AnnounceWindowsOperator

    stream = of.stream
    with DAG(
        f"{stream.name}_announce",
        schedule=None,
        params={
            "start": Param("", type="string", format="date-time", title="From"),
            "end": Param("", type="string", format="date-time", title="Until"),
            "reason": Param("", type="string", minLength=1, title="Reason"),
        },
        doc_md=announce_page(stream),
        description=f"Announces a range of windows of stream {stream.name} once more.",
        **{**of.every, "default_args": {**of.every["default_args"], **RETRIES}},
    ) as dag:
        AnnounceWindowsOperator(
            task_id="announce",
            start="{{ params.start }}",
            end="{{ params.end }}",
            reason="{{ params.reason }}",
            **_series_of(of, options),
        )
    return dag


def _series_of(of: _Shared, options: PartitionOptions) -> dict[str, Any]:
    """Return which windows are meant, as arguments of an operator."""
    return {
        "stream": of.stream.name,
        "home": of.stream.home,
        "every": options.every,
        "query": options.query,
        "home_conn_id": of.connections.home_conn_id,
    }
