"""
One call per stream: every dag that it needs, with good names, pages, forms and tags.

There is nothing in them that cannot be had as single operators and task groups; whoever wants
another order composes his own dags of the same parts.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import DAG, Param

from airflow_streaming.core.checkpoint.backup import Origin
from airflow_streaming.core.checkpoint.retention import RetentionPolicy
from airflow_streaming.core.lanes import check_is_stream
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.core.upgrade.terms import SoakTerms
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators.checkpoint import (
    CheckpointBackupOperator,
    CheckpointRetentionOperator,
)
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.orchestration._cutover_asked import check_keys
from airflow_streaming.orchestration.blue_green import blue_green
from airflow_streaming.orchestration.cutover_form import cutover_params
from airflow_streaming.orchestration.form import rescale_params, upgrade_params
from airflow_streaming.orchestration.upgrade import rescale, upgrade_in_place
from airflow_streaming.orchestration.words import (
    backup_page,
    blue_green_page,
    keep_alive_page,
    rescale_page,
    upgrade_page,
)

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Airflow gives a second run to a dag that follows itself only when it has a start date."""

KEEP: Final = RetentionPolicy(
    keep_last=24,
    daily=7,
    weekly=4,
    origins={
        Origin.MANUAL: RetentionPolicy(keep_for=timedelta(days=90)),
        Origin.BEFORE_UPGRADE: RetentionPolicy(keep_last=5),
        Origin.BEFORE_RESTORE: RetentionPolicy(keep_last=5),
    },
)
"""Backups that are kept unless the author says otherwise."""

CUTOVER_RUNS: Final = 8
"""Runs of a cutover at once: one that only waits to retire its blue must not hold up the next; that
only one of them moves the stream is seen to in its home."""

_ONLY_IN_FORM: Final = frozenset({"way", "start", "promote"})
_IN_FORM: Final = _ONLY_IN_FORM | {"soak", "retain_blue", "approvers", "need_approval"}
"""What an author says of a cutover that its form shows, and a person may change."""


def stream_dags(
    stream: StreamSpec,
    *,
    conn_id: str = "spark_default",
    home_conn_id: str | None = None,
    backup_store: str | None = None,
    backup_schedule: str | None = "@hourly",
    backup_max_age: timedelta | None = None,
    retention: RetentionPolicy = KEEP,
    soak: SoakTerms | None = None,
    approvers: Sequence[str] = (),
    need_approval: bool = True,
    keep_alive: Mapping[str, Any] | None = None,
    upgrade: Mapping[str, Any] | None = None,
    cutover: Mapping[str, Any] | None = None,
    tags: Sequence[str] = ("streaming",),
    start_date: datetime = START,
) -> dict[str, DAG]:
    """
    Return the dags of one stream, by their ids; assign them with ``globals().update(...)``.

    ``<name>`` keeps it alive, ``<name>_upgrade`` upgrades it from a form, ``<name>_blue_green`` runs
    another version beside it and switches, ``<name>_rescale`` restarts it with another size, and
    ``<name>_backup`` backs it up.

    :param stream: The stream; its name is that of its dags, and no template.
    :param conn_id: Spark connection of the apache-spark provider.
    :param home_conn_id: Connection with credentials for the home.
    :param backup_store: URI of the backups; ``<home>/_backups`` when not given.
    :param backup_schedule: When it is backed up.
    :param backup_max_age: Age of the newest good backup beyond which people are told.
    :param retention: Which backups are kept.
    :param soak: What a new deployment has to show before it is kept.
    :param approvers: Ids of the users who may approve an upgrade or another size.
    :param need_approval: What the form of the upgrade says unless it is changed there.
    :param keep_alive: More arguments of ``SparkStreamOperator``, e.g. ``on_gave_up``.
    :param upgrade: More arguments of ``upgrade_in_place``, e.g. ``checks``.
    :param cutover: More arguments of ``blue_green``, e.g. ``compare``; what its form shows stands
        there as it is given here.
    :param tags: Tags of every dag; the stream's name is added.
    :param start_date: Of every dag.
    :raises SpecError: the stream's name is a template, or that of a lane; or what is asked of a
        cutover cannot be.
    """
    if "{" in stream.name:
        raise SpecError(
            f"The name of stream {stream.name!r} is a template, and dags need their names when "
            "they are parsed. Give the name itself."
        )
    check_is_stream(stream.name)
    known = inspect.signature(blue_green).parameters.keys() - {"stream"}
    asked = check_keys("cutover", cutover, known | _IN_FORM)
    shared = {"conn_id": conn_id, "home_conn_id": home_conn_id, "backup_store": backup_store}
    every = {
        "start_date": start_date,
        "catchup": False,
        "max_active_runs": 1,
        "tags": [*tags, stream.name],
    }
    ask = {"soak": soak, "approvers": approvers, "need_approval": need_approval}
    dags = [
        _keep_alive(stream, every, {**shared, **(keep_alive or {})}),
        _upgrade(stream, every, {**shared, **(upgrade or {})}, ask),
        _blue_green(stream, every, {**shared, **asked}, ask),
        _rescale(stream, every, shared, {**ask, "need_approval": bool(approvers)}),
        _backup(
            stream, every, home_conn_id, backup_store, backup_schedule, backup_max_age, retention
        ),
    ]
    # A path that is relative to the dag starts at the author's file, not at this one.
    author = sys._getframe(1).f_code.co_filename
    for dag in dags:
        dag.fileloc = author
    return {dag.dag_id: dag for dag in dags}


def _keep_alive(stream: StreamSpec, every: Mapping[str, Any], more: Mapping[str, Any]) -> DAG:
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
                description="Stop it, deploy what the dag says now, start it: without the gates "
                f"and the way back of {stream.name}_upgrade.",
            )
        },
        doc_md=keep_alive_page(stream),
        description=f"Keeps stream {stream.name} alive.",
        **every,
    ) as dag:
        SparkStreamOperator(task_id="stream", stream=stream, **more)
    return dag


def _upgrade(
    stream: StreamSpec, every: Mapping[str, Any], more: Mapping[str, Any], ask: Mapping[str, Any]
) -> DAG:
    rehearse = {"rehearse": more["rehearse"]} if "{{" not in more.get("rehearse", "{{") else {}
    rest = {name: value for name, value in more.items() if name not in rehearse}
    with DAG(
        f"{stream.name}_upgrade",
        schedule=None,
        params=upgrade_params(stream, **ask, **rehearse),
        doc_md=upgrade_page(stream),
        description=f"Upgrades stream {stream.name} in place, with a way back.",
        **every,
    ) as dag:
        upgrade_in_place(stream, soak=ask["soak"], approvers=ask["approvers"], **rest)
    return dag


def _blue_green(
    stream: StreamSpec, every: Mapping[str, Any], more: Mapping[str, Any], ask: Mapping[str, Any]
) -> DAG:
    shown = {name: value for name, value in more.items() if name in _IN_FORM}
    rest = {name: value for name, value in more.items() if name not in _ONLY_IN_FORM}
    with DAG(
        f"{stream.name}_blue_green",
        schedule=None,
        params=cutover_params(stream, **{**ask, **shown}),
        doc_md=blue_green_page(stream),
        description=f"Runs another version of stream {stream.name} beside it, and switches.",
        **{**every, "max_active_runs": CUTOVER_RUNS},
    ) as dag:
        blue_green(stream, **{"soak": ask["soak"], "approvers": ask["approvers"], **rest})
    return dag


def _rescale(
    stream: StreamSpec, every: Mapping[str, Any], more: Mapping[str, Any], ask: Mapping[str, Any]
) -> DAG:
    with DAG(
        f"{stream.name}_rescale",
        schedule=None,
        params=rescale_params(**ask),
        doc_md=rescale_page(stream),
        description=f"Restarts stream {stream.name} with another size.",
        **every,
    ) as dag:
        rescale(stream, soak=ask["soak"], approvers=ask["approvers"], **more)
    return dag


def _backup(
    stream: StreamSpec,
    every: Mapping[str, Any],
    home_conn_id: str | None,
    store: str | None,
    schedule: str | None,
    max_age: timedelta | None,
    retention: RetentionPolicy,
) -> DAG:
    where: dict[str, Any] = {
        "home": stream.home,
        "stream": stream.name,
        "store": store,
        "home_conn_id": home_conn_id,
    }
    with DAG(
        f"{stream.name}_backup",
        schedule=schedule,
        default_args={"retries": 2, "retry_delay": timedelta(minutes=2)},
        doc_md=backup_page(stream),
        description=f"Backs up the checkpoints of stream {stream.name} while it runs.",
        **every,
    ) as dag:
        backup = CheckpointBackupOperator(task_id="backup", verify="full", max_age=max_age, **where)
        # What a killed backup has left is swept too.
        sweep = CheckpointRetentionOperator(
            task_id="retention", policy=retention, trigger_rule="all_done", **where
        )
        backup >> sweep
    return dag
