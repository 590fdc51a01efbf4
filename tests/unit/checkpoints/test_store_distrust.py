"""What a verification found damaged is not referred to again, but written anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.checkpoints.backup.bundles import writer_of
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.model.arguments.choices import Level
from tests.unit.checkpoints.made import NOON, STREAM, copy_into, make_backup, sizes, some_files

LARGE_FILE = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f")


def flip_a_byte(store: BackupStore, ending: str | tuple[str, ...]) -> None:
    """Damage an object without changing its size."""
    path = next(one.path for one in store.objects(STREAM) if one.path.endswith(ending))
    file = Path(store.uri) / path
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


class TestDistrust:
    def test_what_was_found_damaged_is_written_again(
        self, store: BackupStore, tmp_path: Path
    ) -> None:
        files = some_files()
        first = make_backup(store, files)
        pack = next(path for path in sizes(store) if path.endswith(".tar.gz"))
        damaged = bytearray((tmp_path / "store" / pack).read_bytes())
        damaged[-1] ^= 1
        (tmp_path / "store" / pack).write_bytes(damaged)
        assert not verify(store, first.id, Level.FULL, by="kim", now=NOON).holds

        second = make_backup(store, files, number=2)

        # The pack has the same name, and so both are whole again.
        assert verify(store, second.id, Level.FULL, by="kim", now=NOON).holds
        assert verify(store, first.id, Level.FULL, by="kim", now=NOON).holds

    def test_a_quick_look_makes_nothing_trusted_that_was_found_damaged(
        self, store: BackupStore
    ) -> None:
        first = make_backup(store, some_files())
        flip_a_byte(store, ".tar.gz")
        verify(store, first.id, Level.FULL, by="kim", now=NOON)
        assert verify(store, first.id, Level.QUICK, by="kim", now=NOON).holds

        second = make_backup(store, some_files(), number=2)

        assert second.added_files > 0
        assert verify(store, second.id, Level.FULL, by="kim", now=NOON).holds

    @pytest.mark.parametrize("ending", [".tar.gz", ".index.gz", LARGE_FILE])
    def test_what_was_found_damaged_through_an_old_backup_is_distrusted_in_every_newer_one(
        self, store: BackupStore, ending: str
    ) -> None:
        first, *_ = [make_backup(store, some_files(), number=number) for number in range(1, 6)]
        flip_a_byte(store, ending)
        assert not verify(store, first.id, Level.FULL, by="kim", now=NOON).holds

        newest = make_backup(store, some_files(), number=6)

        assert verify(store, newest.id, Level.FULL, by="kim", now=NOON).holds

    def test_damage_of_what_a_killed_run_left_is_distrusted_too(self, store: BackupStore) -> None:
        first = make_backup(store, {"counts/a": b"1"})
        with writer_of(store, STREAM) as writer:
            writer.close(copy_into(writer, some_files()))
        flip_a_byte(store, LARGE_FILE)
        assert not verify(store, first.id, Level.FULL, by="kim", now=NOON).holds

        second = make_backup(store, some_files(), number=2)

        assert verify(store, second.id, Level.FULL, by="kim", now=NOON).holds

    def test_what_is_not_damaged_is_referred_to_all_the_same(self, store: BackupStore) -> None:
        first = make_backup(store, some_files())
        flip_a_byte(store, LARGE_FILE)
        verify(store, first.id, Level.FULL, by="kim", now=NOON)

        assert make_backup(store, some_files(), number=2).added_files == 1
        assert verify(store, first.id, Level.FULL, by="kim", now=NOON).holds
        assert make_backup(store, some_files(), number=3).added_files == 0

    def test_of_a_backup_with_more_damage_than_is_named_nothing_is_trusted(
        self, store: BackupStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("airflow_streaming.checkpoints.vault.verify.MAX_NAMED", 1)
        files = some_files(large=2)
        first = make_backup(store, files)
        flip_a_byte(store, LARGE_FILE)
        flip_a_byte(store, ".tar.gz")
        assert len(verify(store, first.id, Level.FULL, by="kim", now=NOON).facts["damaged"]) < 100

        second = make_backup(store, files, number=2)

        assert second.added_files == len(files)
        assert verify(store, second.id, Level.FULL, by="kim", now=NOON).holds
