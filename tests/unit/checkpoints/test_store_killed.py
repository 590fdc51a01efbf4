"""A backup killed at any step leaves nothing half, and the next one goes on with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.model.arguments.choices import Level
from tests.unit.checkpoints.dying import DyingBlobs, Killed
from tests.unit.checkpoints.made import NOON, STREAM, local_store, make_backup, sizes, some_files

FILES = some_files(small=12)
CHANGED = {**FILES, "counts/offsets/18": b"v1", "counts/metadata": b"{}"}


def steps_of(folder: Path, *backups: dict[str, bytes]) -> list[str]:
    store = local_store(folder)
    for number, files in enumerate(backups[:-1], start=1):
        make_backup(store, files, number=number)
    counting = DyingBlobs(store.blobs)
    make_backup(BackupStore(counting), backups[-1], number=9)
    return counting.steps


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("backups", [(FILES,), (FILES, CHANGED)], ids=["first", "second"])
def test_a_backup_killed_at_any_step_is_not_listed_half_and_the_next_one_finishes(
    tmp_path: Path, backups: tuple[dict[str, bytes], ...], before: bool
) -> None:
    steps = steps_of(tmp_path / "counted", *backups)
    # A hold, a large file, a pack, an index, the manifest, and the end of the hold.
    assert len(steps) == (6 if len(backups) == 1 else 5)
    for step in range(1, len(steps) + 1):
        store = local_store(tmp_path / str(step))
        earlier = [make_backup(store, files) for files in backups[:-1]]
        dying = BackupStore(DyingBlobs(store.blobs, step=step, before=before))
        with pytest.raises(Killed):
            make_backup(dying, backups[-1], number=8)

        is_published = any("backups" in one for one in steps[: step - before])
        listed = store.listed()
        assert [one.backup for one in listed][: len(earlier)] == earlier
        assert len(listed) == len(earlier) + is_published
        assert all(one.backup is not None for one in listed)

        finished = make_backup(store, backups[-1], number=9)

        sent = any(".index.gz" in one for one in steps[: step - before])
        assert (finished.added_files == 0) == sent
        for one in store.backups():
            assert verify(store, one.id, Level.FULL, by="kim", now=NOON).problems == ()


def test_what_a_killed_writer_was_writing_is_neither_listed_nor_taken_for_damage(
    store: BackupStore, tmp_path: Path
) -> None:
    backup = make_backup(store, some_files())
    half = tmp_path / "store" / STREAM / "packs" / f".{'a' * 64}.tar.gz.{'b' * 32}.tmp"
    half.write_bytes(os.urandom(100))

    assert verify(store, backup.id, Level.FULL, by="kim", now=NOON).holds
    assert not any(path.endswith(".tmp") for path in sizes(store))
