"""An engineer deletes one backup by name, and never one that is needed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.vault.deletion import BackupRemoval, delete_named
from airflow_streaming.checkpoints.vault.layout import manifest_path, removal_path
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import BackupNotFound, CheckpointRefused, HomeUnavailable
from tests.unit.checkpoints.remembered import Call, RememberedBlobs
from tests.unit.checkpoints.retaining import Killed, files, lost, say, take


def delete(blobs: RememberedBlobs, backup: Backup, **asked: Any) -> str:
    told = {"by": "kim", "reason": "of a test", "dry_run": False, "clock": lambda: blobs.now}
    return delete_named(BackupStore(blobs), backup.id, **{**told, **asked})


def left(blobs: RememberedBlobs) -> set[str]:
    return {backup.id for backup in BackupStore(blobs).backups("orders")}


@pytest.fixture
def blobs() -> RememberedBlobs:
    return RememberedBlobs()


@pytest.fixture
def two(blobs: RememberedBlobs) -> list[Backup]:
    return [take(blobs, files(f"q/offsets/{n}"), ("file:///ck",)) for n in range(2)]


def test_it_goes_with_one_record_of_who_and_why(blobs: RememberedBlobs, two: list[Backup]) -> None:
    assert delete(blobs, two[0]) == "orders"

    removal = BackupRemoval.from_bytes(blobs.objects[removal_path("orders", two[0].id)][0])
    assert (removal.by, removal.reason, len(removal.manifest)) == ("kim", "of a test", 64)
    assert left(blobs) == {two[1].id}
    assert lost(blobs) == set()
    with pytest.raises(BackupNotFound):
        delete(blobs, two[0])


def test_without_a_word_more_nothing_is_written(blobs: RememberedBlobs, two: list[Backup]) -> None:
    before = dict(blobs.objects)

    assert delete(blobs, two[0], dry_run=True) == "orders"

    assert blobs.objects == before


def test_the_last_good_one_is_refused(blobs: RememberedBlobs, two: list[Backup]) -> None:
    say(BackupStore(blobs), two[1], "A byte is wrong.")

    with pytest.raises(CheckpointRefused, match="last good one of file:///ck"):
        delete(blobs, two[0])
    delete(blobs, two[1])

    assert left(blobs) == {two[0].id}


def test_one_whose_rival_has_lost_its_objects_is_the_last_good_one(
    blobs: RememberedBlobs, two: list[Backup]
) -> None:
    for path in BackupStore(blobs).needed(two[1]):
        blobs.objects.pop(path)

    with pytest.raises(CheckpointRefused):
        delete(blobs, two[0])


def test_one_of_an_open_change_is_refused(blobs: RememberedBlobs, two: list[Backup]) -> None:
    facts = {"change_home": "file:///home", "change": "1"}
    pinned = replace(two[0], id=f"{two[0].id}-p", facts=facts)
    BackupStore(blobs).publish(pinned)

    def away(_: str) -> Any:
        raise HomeUnavailable("away")

    with pytest.raises(CheckpointRefused, match="change 1 in file:///home"):
        delete(blobs, pinned, homes=away)


def test_one_that_is_read_now_is_refused(blobs: RememberedBlobs, two: list[Backup]) -> None:
    with (
        BackupStore(blobs).hold("orders", "restore", two[0].id),
        pytest.raises(CheckpointRefused, match="just now"),
    ):
        delete(blobs, two[0])


def test_a_damaged_manifest_can_be_deleted(blobs: RememberedBlobs, two: list[Backup]) -> None:
    blobs.put(manifest_path("orders", two[0].id), json.dumps({"backup": 1}).encode())

    delete(blobs, two[0])

    assert [one.id for one in BackupStore(blobs).listed("orders")] == [two[1].id]


def test_killed_at_any_write_it_is_finished_by_the_next_call(
    blobs: RememberedBlobs, two: list[Backup]
) -> None:
    say(BackupStore(blobs), two[0])
    for step in (1, 2, 3):
        world, count = blobs.copy(), [0]

        def die(call: Call, count: list[int] = count, step: int = step) -> None:
            count[0] += call.is_durable and not call.is_done
            if count[0] >= step and call.is_durable:
                raise Killed

        world.hook = die
        with pytest.raises(Killed):
            delete(world, two[0])
        world.hook = lambda call: None
        if two[0].id in left(world):
            delete(world, two[0])

        assert left(world) == {two[1].id}
        assert removal_path("orders", two[0].id) in world.objects
