"""An engineer deletes one backup by name, and never one that is needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.vault.deletion import BackupRemoval, delete_named
from airflow_streaming.checkpoints.vault.layout import manifest_path, removal_path
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import BackupNotFound, CheckpointRefused, HomeUnavailable
from tests.unit.checkpoints.remembered import Call, RememberedBlobs
from tests.unit.checkpoints.retaining import HOUR, Killed, files, lost, say, take


def delete(blobs: RememberedBlobs, backup: Backup, **asked: Any) -> str:
    told = {"by": "kim", "reason": "of a test", "dry_run": False, "clock": lambda: blobs.now}
    return delete_named(BackupStore(blobs), backup.id, **{**told, **asked})


def refusal(blobs: RememberedBlobs, backup: Backup, **asked: Any) -> str:
    try:
        delete(blobs, backup, **asked)
    except CheckpointRefused as err:
        return str(err)
    return ""


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


def away(_: str) -> Any:
    raise HomeUnavailable("away")


def home_with(end: object) -> Callable[[str], Any]:
    """Return the opener of a home that knows this end of every change."""
    stream = SimpleNamespace(change_end=lambda number: end)
    return lambda _: SimpleNamespace(stream=lambda name: stream)


@pytest.mark.parametrize(
    ("homes", "is_refused"),
    [
        pytest.param(away, True, id="its home is away"),
        pytest.param(home_with(None), True, id="it is open"),
        pytest.param(home_with("ended"), False, id="it has ended"),
    ],
)
def test_one_of_a_change_is_refused_until_the_change_has_ended(
    blobs: RememberedBlobs, two: list[Backup], homes: Callable[[str], Any], is_refused: bool
) -> None:
    facts = {"change_home": "file:///home", "change": "1"}
    pinned = replace(two[0], id=f"{two[0].id}-p", facts=facts)
    BackupStore(blobs).publish(pinned)

    why = refusal(blobs, pinned, homes=homes)

    assert ("change 1 in file:///home" in why) is is_refused
    assert (pinned.id in left(blobs)) is is_refused


def unreadable(blobs: RememberedBlobs) -> None:
    (path,) = [path for path in blobs.objects if "/holds/" in path]
    blobs.objects[path] = b"?", blobs.now


def silent(blobs: RememberedBlobs) -> None:
    blobs.wait(HOUR)


@pytest.mark.parametrize(
    ("what", "held", "then", "is_refused"),
    [
        pytest.param("restore", 0, None, True, id="it is read"),
        pytest.param("restore", 1, None, False, id="another one is read"),
        pytest.param("verify", None, None, True, id="the whole stream is read"),
        pytest.param("restore", 1, unreadable, True, id="nobody can tell which is read"),
        pytest.param("restore", 0, silent, False, id="its reader was killed"),
    ],
)
def test_one_that_is_read_now_is_refused(
    blobs: RememberedBlobs,
    two: list[Backup],
    what: str,
    held: int | None,
    then: Callable[[RememberedBlobs], None] | None,
    is_refused: bool,
) -> None:
    with BackupStore(blobs).hold("orders", what, "" if held is None else two[held].id):
        if then is not None:
            then(blobs)
        why = refusal(blobs, two[0])

    assert ("just now" in why) is is_refused
    assert (two[0].id in left(blobs)) is is_refused


def test_of_backups_that_name_no_checkpoint_the_last_good_one_stays(
    blobs: RememberedBlobs,
) -> None:
    old, new = [take(blobs, files(f"q/offsets/{n}")) for n in range(2)]

    delete(blobs, old)
    with pytest.raises(CheckpointRefused, match="last good one of stream orders"):
        delete(blobs, new)

    assert left(blobs) == {new.id}


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
