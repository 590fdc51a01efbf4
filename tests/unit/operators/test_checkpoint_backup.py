"""Backing up from a dag."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.checkpoints.backup import backup as backup_module
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.exceptions import BackupStoreMissing, CheckpointBusy
from airflow_streaming.model.arguments.choices import Level, Origin
from airflow_streaming.model.status import CheckpointOrigin
from airflow_streaming.operators.backup import CheckpointBackupOperator
from airflow_streaming.operators.common.checkpoint import Terminated
from airflow_streaming.operators.restore import CheckpointVerifyOperator
from tests.unit.checkpoints.restoring import run_batches
from tests.unit.operators.checkpoints import ALWAYS, back_up, checkpoint_of, ours, store_of
from tests.unit.world import World


def test_a_backup_of_a_running_stream_is_kept_in_its_home_and_told(stream: World) -> None:
    backup_id = back_up(stream, note="nightly", verify="full")

    (backup,) = store_of(stream).backups("orders")
    assert backup.id == backup_id
    assert (backup.origin, backup.note) == (Origin.SCHEDULED, "nightly")
    assert (backup.deployment, backup.epoch, backup.spark_version) == (1, 1, "4.3.0")
    assert stream.ti.xcoms["backup"]["queries"] == {"revenue": 4}
    (said,) = store_of(stream).verifications(backup_id)
    assert (said.level, said.holds) == (Level.FULL, True)


def test_no_store_is_made_where_the_one_with_the_backups_is_not_mounted(
    stream: World, tmp_path: Path
) -> None:
    store = tmp_path / "volume"
    backup_id = back_up(stream, store=str(store))
    store.rename(tmp_path / "away")
    store.mkdir()

    for _ in range(2):
        with pytest.raises(BackupStoreMissing, match="not mounted"):
            back_up(stream, store=str(store))
    check = CheckpointVerifyOperator(task_id="verify", **ours(stream, store=str(store)))
    with pytest.raises(BackupStoreMissing, match="not mounted"):
        check.execute(stream.context())
    assert list(store.iterdir()) == []

    store.rmdir()
    (tmp_path / "away").rename(store)
    again = back_up(stream, store=str(store))
    assert [one.id for one in open_backup_store(str(store)).backups()] == [backup_id, again]


def test_queries_without_a_commit_are_left_out_and_those_elsewhere_are_not(
    stream: World, tmp_path: Path
) -> None:
    run_batches(checkpoint_of(stream, "fresh"), -1)
    elsewhere = run_batches(tmp_path / "chosen by the script", 7)
    query = stream.query(
        name="audit", checkpoint=f"file:{elsewhere}", checkpoint_origin=CheckpointOrigin.SCRIPT
    )
    stream.say(queries=(query,))

    back_up(stream)

    assert stream.ti.xcoms["backup"]["queries"] == {"audit": 7, "revenue": 4}


def test_a_checkpoint_of_somebody_else_is_kept_under_a_name_of_its_own(
    world: World, tmp_path: Path
) -> None:
    place = run_batches(tmp_path / "theirs" / "counts", 2)
    operator = CheckpointBackupOperator(
        task_id="backup",
        checkpoint=str(place),
        store=str(tmp_path / "store"),
        max_age=timedelta(hours=1),
    )

    operator.execute(world.context())

    (backup,) = open_backup_store(str(tmp_path / "store")).backups()
    assert "theirs-counts-" in backup.stream
    assert (backup.queries[0].batch, backup.deployment) == (2, None)


def test_a_checkpoint_that_cannot_be_backed_up_fails_the_task_for_good(stream: World) -> None:
    (checkpoint_of(stream) / "offsets" / "4").write_bytes(b"")

    with pytest.raises(AirflowFailException, match="offsets/4"):
        back_up(stream)
    assert store_of(stream).backups() == []


def test_a_checkpoint_that_was_busy_is_tried_again(
    stream: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_busy(*_: Any, **__: Any) -> None:
        raise CheckpointBusy("It changed under every attempt.")

    monkeypatch.setattr(backup_module, "copy_live", be_busy)

    with pytest.raises(CheckpointBusy):
        back_up(stream)


def test_in_a_blackout_none_is_taken(stream: World) -> None:
    with pytest.raises(
        AirflowSkipException, match="Stream 'orders' is not backed up during a blackout"
    ):
        back_up(stream, blackouts=[ALWAYS])

    assert store_of(stream).backups() == []


def test_a_killed_task_stops_where_it_is_and_lists_nothing(
    stream: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = CheckpointBackupOperator(task_id="backup", **ours(stream))
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())

    def be_killed(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("The signal did not end the work.")

    monkeypatch.setattr(backup_module, "copy_live", be_killed)
    try:
        with pytest.raises(Terminated, match="was killed"):
            operator.execute(stream.context())
    finally:
        signal.signal(signal.SIGTERM, before)

    operator.on_kill()  # after the work it says nothing
    assert store_of(stream).backups() == []
    assert store_of(stream).holds("orders") == []
