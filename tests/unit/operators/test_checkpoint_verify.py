"""Verifying backups from a dag."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.checkpoints.backup.records import Backup, Verification
from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.operators.restore import CheckpointVerifyOperator
from tests.unit.checkpoints.restoring import run_batches
from tests.unit.operators.checkpoints import back_up, checkpoint_of, ours, store_of
from tests.unit.world import World


def verify(world: World, **more: Any) -> Any:
    operator = CheckpointVerifyOperator(task_id="verify", **ours(world, **more))
    return operator.execute(world.context())


def damage(world: World) -> None:
    """Change a byte of a pack."""
    (pack, *_) = Path(world.uri, "_backups", "orders", "packs").glob("*.tar.gz")
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(bytes(data))


def test_the_newest_backup_is_verified_unless_one_is_named(stream: World) -> None:
    first = back_up(stream)
    run_batches(checkpoint_of(stream), 5)
    second = back_up(stream)

    assert verify(stream) == second
    assert verify(stream, backup_id=first, level="quick") == first
    assert stream.ti.xcoms["backup"]["level"] == "quick"


def test_a_backup_that_does_not_hold_fails_the_task_with_what_was_found(stream: World) -> None:
    back_up(stream)
    damage(stream)

    with pytest.raises(AirflowFailException, match=r"does not hold: .*packs/"):
        verify(stream)
    assert back_up(stream, verify="full"), "what was found wrong is written anew"


def test_a_backup_that_refers_to_what_was_damaged_fails_when_it_is_verified(stream: World) -> None:
    back_up(stream)
    damage(stream)

    with pytest.raises(AirflowFailException, match=r"does not hold"):
        back_up(stream, verify="full")


def test_without_a_backup_it_says_where_it_looked(stream: World) -> None:
    open_backup_store(f"{stream.uri}/_backups", create=True)
    stream.say(queries=(stream.query(batches=3),))

    with pytest.raises(AirflowFailException, match="_backups has no backup of stream 'orders'"):
        verify(stream)


def test_a_drill_runs_the_script_of_the_backups_own_deployment(
    stream: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_streaming.model.jobs.drill import Drilled
    from airflow_streaming.spark_jobs import drill as drill_module

    asked: list[dict[str, Any]] = []

    def drill(store: BackupStore, backup: Backup, **more: Any) -> Drilled:
        asked.append({"backup": backup.id, **more})
        return Drilled(problems=("The state cannot be read.",), facts={"spark": "4.3.0"})

    monkeypatch.setattr(drill_module, "drill", drill)
    backup_id = back_up(stream)

    with pytest.raises(AirflowFailException, match=r"The state cannot be read\."):
        verify(stream, level="drill", drill_timeout=timedelta(minutes=3))

    (one,) = asked
    assert (one["backup"], one["timeout"]) == (backup_id, 180.0)
    assert one["runtime"].spark_version == "4.3.0"
    assert one["program"].source == stream.script.read_bytes()


def test_verifications_are_told_as_they_are_stored(stream: World) -> None:
    back_up(stream)
    verify(stream)

    (stored,) = store_of(stream).verifications(store_of(stream).backups()[0].id)
    assert Verification.from_dict(stream.ti.xcoms["backup"]) == stored
