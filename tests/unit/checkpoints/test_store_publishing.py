"""A backup is listed only when everything that it refers to is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.vault.holds import DoomedObjects
from airflow_streaming.checkpoints.vault.layout import manifest_path
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import AlreadyExists, CheckpointBusy, HomeUnavailable
from airflow_streaming.storage.blobs import Blobs, LocalBlobs, Stored
from tests.unit.checkpoints.dying import DyingBlobs
from tests.unit.checkpoints.made import NOON, STREAM, local_store, make_backup, sizes, some_files


class Collecting(DyingBlobs):
    """A store in which retention deletes an object around the creation of a manifest."""

    def __init__(self, blobs: Blobs, act: Callable[[Blobs], None], *, before: bool) -> None:
        super().__init__(blobs)
        self._act, self._first = act, before

    def create(self, path: str, data: bytes) -> None:
        is_manifest = "/backups/" in path
        if is_manifest and self._first:
            self._act(self._blobs)
        super().create(path, data)
        if is_manifest and not self._first:
            self._act(self._blobs)


def delete_a_pack(blobs: Blobs) -> None:
    name = next(e.name for e in blobs.entries(f"{STREAM}/packs") if e.name.endswith("tar.gz"))
    blobs.delete(f"{STREAM}/packs/{name}")


def mark_a_pack(blobs: Blobs) -> None:
    name = next(e.name for e in blobs.entries(f"{STREAM}/packs") if e.name.endswith("tar.gz"))
    doomed = DoomedObjects(blobs, STREAM)
    record = doomed.add([f"{STREAM}/packs/{name}"], by="kim", at=NOON)
    doomed.mark(record.id, by="kim", at=NOON)


class TestPublishing:
    @pytest.mark.parametrize("act", [delete_a_pack, mark_a_pack])
    @pytest.mark.parametrize("before", [True, False])
    def test_a_backup_that_lost_something_meanwhile_is_withdrawn(
        self, tmp_path: Path, act: Callable[[Blobs], None], before: bool
    ) -> None:
        local_store(tmp_path / "store")
        blobs = Collecting(LocalBlobs(str(tmp_path / "store")), act, before=before)

        with pytest.raises(CheckpointBusy, match="was not published; take it again"):
            make_backup(BackupStore(blobs), some_files())

        assert BackupStore(blobs).listed() == []

    @pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
    def test_a_backup_that_is_interrupted_before_it_is_looked_at_is_withdrawn(
        self, store: BackupStore, error: type[BaseException]
    ) -> None:
        def interrupt(blobs: Blobs) -> None:
            def entries(folder: str) -> list[Stored]:
                raise error

            collecting.entries = entries  # type: ignore[method-assign]

        collecting = Collecting(store.blobs, interrupt, before=False)
        with pytest.raises(error):
            make_backup(BackupStore(collecting), some_files())

        assert store.listed() == []

    def test_a_backup_that_can_be_neither_checked_nor_withdrawn_is_told_with_both_errors(
        self, store: BackupStore
    ) -> None:
        def lose_the_store(blobs: Blobs) -> None:
            def away(path: str) -> Any:
                raise HomeUnavailable(f"no route to {path}")

            collecting.entries = collecting.delete = away  # type: ignore[method-assign]

        collecting = Collecting(store.blobs, lose_the_store, before=False)
        backup = make_backup(store, some_files())
        store.delete_backup(backup.id, STREAM)

        with pytest.raises(HomeUnavailable, match="neither checked nor withdrawn") as told:
            BackupStore(collecting).publish(backup)

        assert "no route to orders/doomed" in str(told.value.__cause__)
        assert "no route to orders/backups" in str(told.value)

    def test_a_backup_that_was_withdrawn_by_another_is_not_said_to_be_published(
        self, store: BackupStore
    ) -> None:
        backup = make_backup(store, some_files())
        store.delete_backup(backup.id, STREAM)

        def withdraw(blobs: Blobs) -> None:
            blobs.delete(manifest_path(STREAM, backup.id))

        collecting = Collecting(store.blobs, withdraw, before=False)
        with pytest.raises(CheckpointBusy, match="was withdrawn by retention"):
            BackupStore(collecting).publish(backup)

    def test_an_id_is_given_once(self, store: BackupStore) -> None:
        backup = make_backup(store, some_files())

        store.publish(backup)
        with pytest.raises(AlreadyExists):
            store.publish(replace(backup, note="another"))

        assert store.backups() == [backup]

    def test_a_backup_whose_objects_are_missing_is_not_published(self, store: BackupStore) -> None:
        backup = make_backup(store, some_files())
        store.delete_backup(backup.id, STREAM)
        for path in sizes(store):
            store.delete_object(path)

        with pytest.raises(CheckpointBusy, match="refers to"):
            store.publish(replace(backup, id="again"))
