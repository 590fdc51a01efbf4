"""A stream whose checkpoint is backed up by tasks."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.model.arguments.policies import Blackout
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.operators.backup import CheckpointBackupOperator
from tests.unit.world import World

ALWAYS = Blackout(start="00:00", end="00:00")


def checkpoint_of(world: World, query: str = "revenue") -> Path:
    deployment = world.home.newest_deployment()
    assert deployment is not None
    return Path(deployment.checkpoint) / query


def ours(world: World, **more: Any) -> dict[str, Any]:
    return {"home": world.uri, "stream": "orders", **more}


def back_up(world: World, **more: Any) -> str:
    operator = CheckpointBackupOperator(task_id="backup", **ours(world, **more))
    backup_id: str = operator.execute(world.context())
    return backup_id


def store_of(world: World) -> BackupStore:
    return open_backup_store(f"{world.uri}/_backups")


def stop(world: World) -> None:
    world.home.want(DesiredState.STOPPED, by="ann", reason="restore", now=datetime.now(UTC))
    world.last_words(Outcome.STOPPED)
