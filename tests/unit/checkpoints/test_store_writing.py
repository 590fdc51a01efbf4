"""A backup adds to a store what it does not have yet, and no more."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.backup.bundles import writer_of
from airflow_streaming.checkpoints.backup.index import LARGE
from airflow_streaming.checkpoints.vault.holds import DoomedObjects
from airflow_streaming.checkpoints.vault.layout import index_path, pack_path
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.exceptions import CheckpointBusy, HomeUnavailable, RecordError
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.storage.blobs import Elsewhere
from tests.unit.checkpoints.made import (
    NOON,
    STREAM,
    Files,
    copy_into,
    make_backup,
    sizes,
    some_files,
    stamp_of,
)


def leave_behind(store: BackupStore, files: Files, at: datetime) -> str:
    """Send files as a run does that is killed before its manifest; return its index."""
    with writer_of(store, STREAM) as writer:
        (use,) = writer.close(copy_into(writer, files))
    bundle = store.bundle(STREAM, use.index)
    for path in (index_path(STREAM, use.index), pack_path(STREAM, bundle.pack)):
        os.utime(Path(store.uri) / path, (at.timestamp(), at.timestamp()))
    return use.index


class TestWriting:
    def test_members_are_what_was_given(self, store: BackupStore) -> None:
        files = some_files()

        backup = make_backup(store, files)

        members = {member.path: member for member in store.members(backup)}
        assert {path: member.size for path, member in members.items()} == {
            path: len(data) for path, data in files.items()
        }
        assert {p for p, m in members.items() if m.is_alone} == {
            p for p, data in files.items() if len(data) >= LARGE
        }
        assert backup.added_files == len(files)
        assert backup.added_size == sum(sizes(store).values())

    def test_what_has_not_changed_is_neither_read_nor_written_again(
        self, store: BackupStore
    ) -> None:
        files = some_files()
        first = make_backup(store, files)
        before = sizes(store)

        second = make_backup(store, files, number=2)

        assert sizes(store) == before
        assert second.bundles == first.bundles
        assert (second.added_files, second.added_size) == (0, 0)

    def test_one_percent_changed_adds_one_pack_and_one_index(self, store: BackupStore) -> None:
        files = some_files(small=300)
        make_backup(store, files)
        before = sizes(store)
        changed = {"counts/offsets/18": b"new" * 300, "counts/state/0/1/new.delta": b"d" * 900}

        second = make_backup(store, {**files, **changed}, number=2)

        added = {path: size for path, size in sizes(store).items() if path not in before}
        assert len(added) == 2
        assert second.added_size == sum(added.values())
        assert second.added_files == 2

    def test_equal_content_with_another_stamp_is_read_but_not_written(
        self, store: BackupStore
    ) -> None:
        make_backup(store, {"counts/a": b"same"})
        with writer_of(store, STREAM) as writer:
            assert writer.known("counts/a", 4, "another stamp") is None
            assert writer.known("counts/a", 4, "") is None
            member = writer.add("counts/a", b"same", "another stamp")
            uses = writer.close([member])

        assert len(uses) == 1
        assert (writer.added_files, writer.added_size) == (0, 0)

    def test_a_bundle_of_which_little_is_used_is_written_anew(self, store: BackupStore) -> None:
        files = some_files(small=100, large=1)
        first = make_backup(store, files)
        tenth = dict(list(files.items())[90:])

        second = make_backup(store, tenth, number=2)

        assert {use.index for use in second.bundles}.isdisjoint(u.index for u in first.bundles)
        assert second.files == len(tenth)
        # The large file has an object of its own, so that only its line is written anew.
        assert second.added_files == len(tenth) - 1
        assert second.added_size < 100_000
        assert verify(store, second.id, Level.FULL, by="kim", now=NOON).holds

    def test_a_second_pin_goes_on_with_what_the_first_added(self, store: BackupStore) -> None:
        with writer_of(store, STREAM) as writer:
            old = writer.add("counts/offsets/1", b"old", "stamp 1")
            kept = writer.add("counts/state", b"state", "stamp 2")
            assert writer.known("counts/state", 5, "stamp 2") == kept
            new = writer.add("counts/offsets/1", b"new", "stamp 3")
            again = writer.add("counts/state", b"state", "stamp 4")
            uses = writer.close([new, again])

        assert old != new
        assert again.sha256 == kept.sha256
        members = [store.bundle(STREAM, use.index).members for use in uses]
        assert sum(map(len, members)) == 3

    def test_packs_are_closed_when_they_are_full(
        self, store: BackupStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("airflow_streaming.checkpoints.backup.bundles.PACK_BYTES", 20_000)

        backup = make_backup(store, some_files(small=60, large=0))

        assert len(backup.bundles) > 2
        assert verify(store, backup.id, Level.FULL, by="kim", now=NOON).holds

    def test_a_bundle_has_no_more_members_than_a_reader_takes(
        self, store: BackupStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in ("bundles", "index"):
            monkeypatch.setattr(f"airflow_streaming.checkpoints.backup.{module}.MAX_MEMBERS", 20)

        backup = make_backup(store, some_files(small=50, large=0))

        members = [len(bundle.members) for bundle, _ in store.bundles(backup)]
        assert max(members) == 20
        assert sum(members) == backup.files
        assert verify(store, backup.id, Level.FULL, by="kim", now=NOON).holds

    @pytest.mark.parametrize("copies", [True, False])
    def test_a_large_file_on_the_same_server_is_copied_there_or_sent_the_next_time(
        self, store: BackupStore, monkeypatch: pytest.MonkeyPatch, *, copies: bool
    ) -> None:
        asked: list[str] = []

        class Copy:
            def to(self, path: str) -> bool:
                asked.append(path)
                return copies

        monkeypatch.setattr(type(store.blobs), "server_copy", lambda blobs, source: Copy())
        there = Elsewhere(filesystem=None, path="bucket/1.sst")
        with writer_of(store, STREAM) as writer:
            if not copies:
                with pytest.raises(CheckpointBusy, match=r"bucket/1\.sst was written anew"):
                    writer.add_large("counts/1.sst", [b"state"], elsewhere=there)
            member = writer.add_large("counts/1.sst", [b"state"], elsewhere=there)

        assert len(asked) == 1
        assert member.sha256 in asked[0]
        assert (store.blobs.size(asked[0]) is None) is copies

    def test_a_path_that_leads_out_is_refused(self, store: BackupStore) -> None:
        with writer_of(store, STREAM) as writer:
            with pytest.raises(RecordError, match="cannot be the path"):
                writer.add("counts/../../x", b"1")
            with pytest.raises(RecordError, match="cannot be the path"):
                writer.add_large("/etc/passwd", [b"1"])

    def test_a_store_that_fails_in_the_background_is_told_at_the_latest_in_the_end(
        self, store: BackupStore, tmp_path: Path
    ) -> None:
        (tmp_path / "store" / STREAM).mkdir()
        (tmp_path / "store" / STREAM / "packs").write_text("in the way")

        with writer_of(store, STREAM) as writer:
            member = writer.add("counts/a", b"1")
            with pytest.raises(HomeUnavailable, match="cannot be used"):
                writer.close([member])

    def test_what_a_killed_run_has_sent_is_used(self, store: BackupStore) -> None:
        files = some_files()
        with writer_of(store, STREAM) as writer:
            writer.close(copy_into(writer, files))

        backup = make_backup(store, files)

        assert backup.added_files == 0
        assert verify(store, backup.id, Level.FULL, by="kim", now=NOON).holds

    def test_of_many_killed_runs_the_newest_are_used(
        self, store: BackupStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("airflow_streaming.checkpoints.backup.earlier.MAX_LEFT_OVER", 1)
        runs = [some_files(number, small=3, large=0) for number in range(3)]
        # The newest run has the first name, so the names' order chooses another one.
        by_name = sorted(runs, key=lambda files: leave_behind(store, files, NOON))
        leave_behind(store, by_name[0], NOON + timedelta(hours=1))

        backup = make_backup(store, by_name[0])

        assert backup.added_files == 0

    def test_what_is_doomed_is_not_referred_to(self, store: BackupStore) -> None:
        files = some_files()
        first = make_backup(store, files)
        pack = next(path for path in sizes(store) if path.endswith(".tar.gz"))
        DoomedObjects(store.blobs, STREAM).add([pack], by="kim", at=NOON)

        second = make_backup(store, files, number=2)

        assert second.added_files == first.files


def test_stamps_are_kept_short_in_members(store: BackupStore) -> None:
    backup = make_backup(store, {"counts/a": b"1"})

    [member] = store.members(backup)

    assert len(member.stamp) == 11
    assert member.stamp != stamp_of(b"1")
