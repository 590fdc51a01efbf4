"""Tasks on a schedule that come before the stream's first batch, or after its removal, are skipped."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.home.home import open_home
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.operators.backup import CheckpointBackupOperator
from airflow_streaming.operators.gate import SparkVersionGateOperator
from airflow_streaming.operators.prune import StreamPruneOperator
from airflow_streaming.operators.rehearsal import RehearsalOperator
from airflow_streaming.operators.restore import CheckpointRestoreOperator, CheckpointVerifyOperator
from airflow_streaming.services.removing import RemovalRequest, remove_stream
from airflow_streaming.storage.fsspec_blobs import open_blobs
from tests.unit.checkpoints.restoring import run_batches
from tests.unit.operators.checkpoints import checkpoint_of, ours, stop
from tests.unit.world import World

Task = Callable[[World], Any]
NEVER_STARTED = "was never started, so it has no checkpoint"
NO_BATCH = "has committed no batch yet, so it has no checkpoint"


def task_of(operator: Any, **options: Any) -> Task:
    return lambda world: operator(task_id="task", **ours(world, **options))


SCHEDULED = {
    "backup": task_of(CheckpointBackupOperator, max_age=timedelta(hours=1)),
    "verify": task_of(CheckpointVerifyOperator),
    "drill": task_of(CheckpointVerifyOperator, level="drill"),
    "restore, dry run": task_of(CheckpointRestoreOperator),
    "rehearsal": lambda world: RehearsalOperator(task_id="task", stream=world.spec()),
    "rehearsal of a backup": lambda world: RehearsalOperator(
        task_id="task", stream=world.spec(), backup_id="newest"
    ),
}
scheduled = pytest.mark.parametrize("task", SCHEDULED.values(), ids=SCHEDULED)


@scheduled
def test_a_task_on_the_schedule_is_skipped_for_a_stream_that_was_never_started(
    world: World, task: Task
) -> None:
    with pytest.raises(AirflowSkipException, match=NEVER_STARTED):
        task(world).execute(world.context())


@scheduled
def test_a_task_on_the_schedule_is_skipped_while_the_first_batch_is_not_committed(
    world: World, task: Task
) -> None:
    world.run()
    with pytest.raises(AirflowSkipException, match=NO_BATCH):
        task(world).execute(world.context())

    run_batches(checkpoint_of(world), -1)
    world.say(queries=(world.query(batches=0),))

    with pytest.raises(AirflowSkipException, match=NO_BATCH):
        task(world).execute(world.context())


def test_the_age_of_backups_alerts_nobody_before_the_first_batch(world: World) -> None:
    world.run()

    with pytest.raises(AirflowSkipException):
        SCHEDULED["backup"](world).execute(world.context())

    assert list(world.home.alerts()) == []


def test_a_checkpoint_that_is_missing_after_a_batch_fails_the_backup(world: World) -> None:
    world.run()
    world.say(queries=(world.query(batches=3),))

    with pytest.raises(AirflowFailException, match="There is no folder"):
        SCHEDULED["backup"](world).execute(world.context())

    assert [alert.alert for alert in world.home.alerts()] == [AlertKind.UNHEALTHY]


def test_a_later_start_without_a_batch_does_not_hide_that_the_checkpoint_is_lost(
    world: World,
) -> None:
    trigger = world.run()
    world.say(queries=(world.query(batches=3),))
    world.launcher.end(world.epoch().token)
    world.wake(trigger)

    with pytest.raises(AirflowFailException, match="There is no folder"):
        SCHEDULED["backup"](world).execute(world.context())


@pytest.mark.parametrize(
    "task",
    [
        task_of(CheckpointVerifyOperator, backup_id=""),
        task_of(CheckpointRestoreOperator, backup_id=""),
        task_of(CheckpointRestoreOperator, dry_run=False),
    ],
    ids=["verify of a form", "restore of a form", "restore"],
)
def test_a_user_who_asks_for_a_backup_that_does_not_exist_gets_an_error(
    world: World, task: Task
) -> None:
    store = re.escape(f"{world.uri}/_backups")
    open_backup_store(f"{world.uri}/_backups", create=True)

    with pytest.raises(AirflowFailException, match=store):
        task(world).execute(world.context())


def test_nothing_is_pruned_of_a_stream_that_was_never_started(world: World) -> None:
    with pytest.raises(AirflowSkipException, match=NEVER_STARTED):
        StreamPruneOperator(task_id="task", **ours(world)).execute(world.context())


def test_another_spark_is_allowed_before_the_first_batch(world: World) -> None:
    world.run()
    gate = SparkVersionGateOperator(task_id="task", stream=world.spec(), to_version="4.3.0")

    assert gate.execute(world.context()) == "allowed"


@pytest.mark.parametrize("name", ["backup", "rehearsal", "prune"])
def test_tasks_of_a_removed_stream_are_skipped_and_name_its_removal(
    stream: World, name: str
) -> None:
    stop(stream)
    stream.launcher.end(stream.epoch().token)
    remove_stream(
        open_home(stream.uri),
        open_blobs(stream.uri),
        "orders",
        open_backup_store(f"{stream.uri}/_backups", create=True),
        stream.launcher,
        RemovalRequest(by="ann", reason="replaced", released_by="orders"),
    )

    with pytest.raises(AirflowSkipException, match=r"replaced.* Delete the DAGs"):
        {**SCHEDULED, "prune": task_of(StreamPruneOperator)}[name](stream).execute(stream.context())
