"""A store is opened, tells what it has, and lets go of what is deleted."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.backup.index import seal
from airflow_streaming.checkpoints.vault.layout import manifest_path
from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.exceptions import (
    BackupDamaged,
    BackupNotFound,
    CheckpointError,
    HomeUnavailable,
    RecordError,
)
from airflow_streaming.model.arguments.choices import Level
from tests.unit.checkpoints.made import NOON, STREAM, make_backup, sizes, some_files


class TestOpening:
    def test_a_place_becomes_a_store_only_when_asked(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match="is not a backup store"):
            open_backup_store(str(tmp_path / "new"))

        open_backup_store(str(tmp_path / "new"), create=True)

        assert open_backup_store(str(tmp_path / "new")).backups() == []

    def test_a_folder_with_other_things_is_never_made_a_store(self, tmp_path: Path) -> None:
        (tmp_path / "mine.txt").write_text("mine")

        with pytest.raises(CheckpointError, match="is not empty and no backup store"):
            open_backup_store(str(tmp_path), create=True)

    @pytest.mark.parametrize("mark", [b"", b"{}", b'{"kind": "backup-store", "version": 2}\n'])
    def test_a_store_of_another_format_is_refused(self, tmp_path: Path, mark: bytes) -> None:
        (tmp_path / "store.json").write_bytes(mark)

        with pytest.raises(CheckpointError, match="not what this release writes"):
            open_backup_store(str(tmp_path), create=True)


class TestListing:
    def test_backups_are_listed_oldest_first(self, store: BackupStore) -> None:
        second = make_backup(store, some_files(), number=2)
        first = make_backup(store, some_files(), number=1)
        other = make_backup(store, some_files(), stream="alerts")

        assert store.backups() == [other, first, second]
        assert store.backups(STREAM) == [first, second]
        assert store.streams() == ["alerts", STREAM]
        assert store.backup(second.id) == second

    def test_a_damaged_manifest_is_listed_with_its_problem(
        self, store: BackupStore, tmp_path: Path
    ) -> None:
        backup = make_backup(store, some_files())
        (tmp_path / "store" / manifest_path(STREAM, backup.id)).write_bytes(b"{}")

        [listed] = store.listed()

        assert (listed.id, listed.backup) == (backup.id, None)
        assert "truncated or not a manifest" in listed.problem
        assert store.backups() == []
        with pytest.raises(BackupDamaged, match="are unknown"):
            store.referenced(STREAM)

    def test_a_manifest_under_another_id_is_not_taken_for_that_one(
        self, store: BackupStore, tmp_path: Path
    ) -> None:
        backup = make_backup(store, some_files())
        old = tmp_path / "store" / manifest_path(STREAM, backup.id)
        old.rename(tmp_path / "store" / manifest_path(STREAM, "other"))

        with pytest.raises(BackupDamaged, match=f"is the manifest of backup {backup.id}"):
            store.backup("other")
        with pytest.raises(BackupNotFound, match="List the backups it has"):
            store.backup(backup.id)

    @pytest.mark.parametrize("backup_id", ["", "../x", "a/b", "x" * 200])
    def test_an_id_that_cannot_be_one_is_not_found(
        self, store: BackupStore, backup_id: str
    ) -> None:
        make_backup(store, some_files())

        with pytest.raises(BackupNotFound):
            store.backup(backup_id)


def forbid(monkeypatch: pytest.MonkeyPatch, store: BackupStore, error: OSError) -> None:
    """Have every new object of a store refused."""

    def refuse(path: str, data: bytes) -> None:
        raise HomeUnavailable(path) from error

    monkeypatch.setattr(store.blobs, "create", refuse)


class TestHoldsAndDeletion:
    def test_a_hold_lasts_as_long_as_the_work(self, store: BackupStore) -> None:
        with store.hold(STREAM, "restore", "b1"):
            [held] = store.holds(STREAM)
            assert held.hold is not None
            assert (held.hold.what, held.hold.backup) == ("restore", "b1")
            assert held.beaten is not None

        assert store.holds(STREAM) == []

    @pytest.mark.parametrize("what", ["restore", "verify"])
    def test_whoever_only_reads_goes_on_where_nothing_may_be_written(
        self,
        store: BackupStore,
        what: str,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        forbid(monkeypatch, store, OSError(errno.EROFS, "Read-only file system"))

        with store.hold(STREAM, what, "b1"):
            assert store.holds(STREAM) == []

        assert "is read-only" in caplog.text

    @pytest.mark.parametrize(
        ("what", "error"),
        [("backup", PermissionError("no")), ("restore", OSError(errno.ENOSPC, "disk full"))],
        ids=["a backup writes", "another error"],
    )
    def test_else_a_hold_that_cannot_be_written_is_an_error(
        self, store: BackupStore, what: str, error: OSError, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        forbid(monkeypatch, store, error)

        with pytest.raises(HomeUnavailable), store.hold(STREAM, what, "b1"):
            pytest.fail("There is no hold.")

    def test_a_hold_beats(self, store: BackupStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("airflow_streaming.checkpoints.vault.holds.BEAT_SECONDS", 0.01)
        with store.hold(STREAM, "backup"):
            beats = 0
            while beats < 3:
                [held] = store.holds(STREAM)
                beats = held.hold.beats if held.hold else 0

    def test_a_hold_that_cannot_be_read_is_told(self, store: BackupStore) -> None:
        store.blobs.put(f"{STREAM}/holds/{'a' * 32}.json", b"?")
        store.blobs.put(f"{STREAM}/holds/other.txt", b"?")

        [held] = store.holds(STREAM)

        assert (held.id, held.hold) == ("a" * 32, None)

    @pytest.mark.parametrize("field", ["id", "stream"])
    def test_a_hold_of_another_name_or_stream_tells_nothing(
        self, store: BackupStore, field: str
    ) -> None:
        with store.hold(STREAM, "restore", "b1") as hold:
            forged = replace(hold, **{field: "b" * 32})
            store.blobs.put(f"{STREAM}/holds/{hold.id}.json", forged.to_bytes())

            [held] = store.holds(STREAM)

        assert (held.id, held.hold) == (hold.id, None)

    def test_the_clock_is_the_stores(self, store: BackupStore, tmp_path: Path) -> None:
        told = store.clock()

        assert told is not None
        written = (tmp_path / "store" / "clock.json").stat().st_mtime
        assert told.timestamp() == pytest.approx(written, abs=1e-3)

    def test_what_backups_need_is_referenced_and_nothing_else(self, store: BackupStore) -> None:
        first = make_backup(store, some_files(1))
        second = make_backup(store, some_files(2), number=2)
        assert store.referenced(STREAM) == set(sizes(store))

        store.delete_backup(first.id, STREAM)

        assert store.backups() == [second]
        assert store.referenced(STREAM) == set(store.needed(second))
        assert store.referenced(STREAM) < set(sizes(store))

    def test_a_backup_goes_with_its_checks(self, store: BackupStore) -> None:
        backup = make_backup(store, some_files())
        verify(store, backup.id, Level.QUICK, by="kim", now=NOON)
        verify(store, backup.id, Level.FULL, by="kim", now=NOON)
        assert [one.level for one in store.verifications(backup.id)] == [Level.QUICK, Level.FULL]

        store.delete_backup(backup.id, STREAM)

        assert store.verifications(backup.id, STREAM) == []

    @pytest.mark.parametrize(
        "path", ["store.json", f"{STREAM}/backups/a.json", "../x", f"{STREAM}/packs/x.tar.gz"]
    )
    def test_only_objects_are_deleted_as_objects(self, store: BackupStore, path: str) -> None:
        with pytest.raises(RecordError, match="is not an object"):
            store.delete_object(path)


def test_a_manifest_that_names_more_members_than_there_are_is_damaged(
    store: BackupStore,
) -> None:
    backup = make_backup(store, {"counts/a": b"1", "counts/b": b"2"})
    wrong = replace(
        backup, id="wrong", bundles=(replace(backup.bundles[0], chosen="0-2"),), files=3
    )
    store.blobs.create(manifest_path(STREAM, "wrong"), seal(wrong))

    with pytest.raises(BackupDamaged, match="do not belong together"):
        store.members(wrong)
    assert not verify(store, "wrong", Level.QUICK, by="kim", now=NOON).holds
