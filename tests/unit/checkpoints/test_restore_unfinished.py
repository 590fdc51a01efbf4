"""A restore is whole or not there at all, whenever its process dies or is overtaken."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.progress import Phase, ProgressNow
from airflow_streaming.checkpoints.reader import Reader
from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import HomeUnavailable, RestoreRefused, RestoreTaken
from airflow_streaming.model.spark.listing import RESTORE_MARKER
from airflow_streaming.storage.folders import open_folders
from tests.golden import golden_checkpoint
from tests.unit.checkpoints.restoring import (
    Killed,
    Life,
    Memory,
    back_up,
    is_sound_at,
    limit_local,
    new_store,
    run_batches,
)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return new_store(tmp_path)


def steps_of(store: BackupStore, backup_id: str, to: Path) -> Life:
    life = Life()
    with pytest.MonkeyPatch.context() as patch:
        limit_local(patch, life)
        restore(store, backup_id, Place(to=str(to)))
    return life


def killed_at(store: BackupStore, backup_id: str, to: Path) -> Iterator[int]:
    """Kill the restore before each of its durable steps in turn; yield after each death."""
    steps = steps_of(store, backup_id, to).steps
    shutil.rmtree(to)
    assert steps > 8
    for step in range(1, steps + 1):
        with pytest.MonkeyPatch.context() as patch:
            limit_local(patch, Life(step))
            with pytest.raises(Killed):
                restore(store, backup_id, Place(to=str(to)))
        yield step


def test_a_restore_killed_at_any_step_is_nothing_or_whole_and_can_be_asked_for_again(
    store: BackupStore, tmp_path: Path
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 2))
    to = tmp_path / "restores" / "new"
    to.parent.mkdir()

    for _ in killed_at(store, backup.id, to):
        if to.exists():
            # Killed after the rename: there is nothing left to be done.
            assert is_sound_at(to, 2)
        else:
            restore(store, backup.id, Place(to=str(to)))
        assert is_sound_at(to, 2)
        shutil.rmtree(to)

    restore(store, backup.id, Place(to=str(to)))
    assert [path.name for path in to.parent.iterdir()] == ["new"]


def test_on_an_object_store_a_restore_killed_at_any_step_is_marked_and_finished_later(
    store: BackupStore, tmp_path: Path
) -> None:
    for name in ("counts", "sums"):
        run_batches(tmp_path / "ck" / name, 1)
    backup = back_up(store, tmp_path / "ck")
    place = {"to": "memory://bucket/new"}
    whole = Memory()
    restore(store, backup.id, Place(**place, filesystem=whole))
    expected = {path: file.getvalue() for path, file in whole.store.items()}
    assert whole.life.steps == len(expected) + 4

    for step in range(1, whole.life.steps + 1):
        memory = Memory()
        memory.life = Life(step)
        with pytest.raises(Killed):
            restore(store, backup.id, Place(**place, filesystem=memory))
        memory.life = Life()
        is_marked = any(path.endswith(RESTORE_MARKER) for path in memory.store)
        assert is_marked or not memory.store
        restored = restore(store, backup.id, Place(**place, filesystem=memory))
        assert restored.resumed is is_marked
        assert {path: file.getvalue() for path, file in memory.store.items()} == expected


def test_an_unfinished_restore_is_not_mistaken_for_a_checkpoint(
    store: BackupStore, tmp_path: Path
) -> None:
    first = back_up(store, run_batches(tmp_path / "ck", 1))
    second = back_up(store, run_batches(tmp_path / "ck", 2))
    memory = Memory()
    memory.life = Life(5)
    with pytest.raises(Killed):
        restore(store, first.id, Place(to="memory://bucket/new", filesystem=memory))
    memory.life = Life()
    folders = open_folders("memory://bucket/new", filesystem=memory)

    found = Reader(folders).inspect()
    assert "unfinished_restore" in {problem.code for problem in found.problems}
    with pytest.raises(RestoreRefused, match=f"restore of backup {first.id}"):
        restore(store, second.id, Place(to="memory://bucket/new", filesystem=memory))


def test_a_torn_file_of_the_right_size_is_written_again(store: BackupStore, tmp_path: Path) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 1))
    memory = Memory()
    place = Place(to="memory://bucket/new", filesystem=memory)
    memory.life = Life(3)
    with pytest.raises(Killed):
        restore(store, backup.id, place)
    memory.life = Life()
    (torn,) = (path for path in memory.store if not path.endswith(RESTORE_MARKER))
    whole = memory.cat_file(torn)
    memory.pipe_file(torn, bytes(len(whole)))

    assert restore(store, backup.id, place).resumed

    assert memory.cat_file(torn) == whole


def test_a_restore_that_is_resumed_is_read_back_with_its_contents(
    store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = back_up(store, golden_checkpoint("4.3.0", "agg_rocks").path)
    memory = Memory()
    memory.life = Life(3)
    place = Place(to="memory://bucket/new", filesystem=memory)
    with pytest.raises(Killed):
        restore(store, backup.id, place)
    memory.life = Life()
    put = Memory.pipe_file

    def losing(self: Memory, path: str, value: bytes, **options: Any) -> None:
        put(self, path, bytes(len(value)) if path.endswith(".sst") else value, **options)

    monkeypatch.setattr(Memory, "pipe_file", losing)
    with pytest.raises(RestoreRefused, match="is not sound and was discarded"):
        restore(store, backup.id, place)

    assert memory.store == {}


def test_the_slower_of_two_equal_restores_leaves_a_live_checkpoint_alone(
    store: BackupStore, tmp_path: Path
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 1))
    memory = Memory()
    place = Place(to="memory://bucket/new", filesystem=memory)
    live: dict[str, bytes] = {}

    def overtaking(now: ProgressNow) -> None:
        if now.phase is Phase.WRITE and not live:
            live["begun"] = b""
            restore(store, backup.id, place)
            for log in ("offsets", "commits"):
                memory.pipe_file(f"/bucket/new/{log}/2", memory.cat_file(f"/bucket/new/{log}/1"))
            live.update({path: file.getvalue() for path, file in memory.store.items()})

    with pytest.raises(RestoreTaken, match="no longer held by this attempt"):
        restore(store, backup.id, place, progress=overtaking)

    del live["begun"]
    assert {path: file.getvalue() for path, file in memory.store.items()} == live


def test_a_store_that_is_away_for_a_while_keeps_the_claim(
    store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 1))
    memory = Memory()
    place = Place(to="memory://bucket/new", filesystem=memory)
    with monkeypatch.context() as patch:
        patch.setattr(Memory, "rm_file", away)
        with pytest.raises(HomeUnavailable):
            restore(store, backup.id, place)

    assert restore(store, backup.id, place).resumed
    assert not any(path.endswith(RESTORE_MARKER) for path in memory.store)


def away(*_: Any) -> None:
    raise OSError("The network is away.")
