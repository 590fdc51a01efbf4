from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoint.blobs import Blobs, Stored
from airflow_streaming.checkpoint.doomed import DoomedObjects
from airflow_streaming.checkpoint.layout import manifest_path
from airflow_streaming.checkpoint.local_blobs import LocalBlobs
from airflow_streaming.checkpoint.store import BackupStore, open_backup_store
from airflow_streaming.checkpoint.verify import verify
from airflow_streaming.core.checkpoint.backup import Level
from airflow_streaming.core.checkpoint.index import LARGE
from airflow_streaming.core.checkpoint.manifest import seal
from airflow_streaming.exceptions import (
    AlreadyExists,
    BackupDamaged,
    BackupNotFound,
    CheckpointBusy,
    CheckpointError,
    HomeUnavailable,
    RecordError,
)
from tests.unit.checkpoint.dying import DyingBlobs, Killed
from tests.unit.checkpoint.made import (
    NOON,
    STREAM,
    copy_into,
    local_store,
    make_backup,
    some_files,
    stamp_of,
)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return local_store(tmp_path / "store")


LARGE_FILE = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f")


def flip_a_byte(store: BackupStore, ending: str | tuple[str, ...]) -> None:
    """Damage an object without changing its size."""
    path = next(one.path for one in store.objects(STREAM) if one.path.endswith(ending))
    file = Path(store.uri) / path
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def sizes(store: BackupStore) -> dict[str, int]:
    return {one.path: one.size for one in store.objects(STREAM)}


class TestOpening:
    def test_a_place_becomes_a_store_only_when_asked(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match="is no backup store"):
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
        assert "cut off or is no manifest" in listed.problem
        assert store.backups() == []
        with pytest.raises(BackupDamaged, match="needs is unknown"):
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
        with store.writer(STREAM) as writer:
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
        with store.writer(STREAM) as writer:
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
        monkeypatch.setattr("airflow_streaming.checkpoint.pack_line.PACK_BYTES", 20_000)

        backup = make_backup(store, some_files(small=60, large=0))

        assert len(backup.bundles) > 2
        assert verify(store, backup.id, Level.FULL, by="kim", now=NOON).holds

    def test_a_path_that_leads_out_is_refused(self, store: BackupStore) -> None:
        with store.writer(STREAM) as writer:
            with pytest.raises(RecordError, match="cannot be the path"):
                writer.add("counts/../../x", b"1")
            with pytest.raises(RecordError, match="cannot be the path"):
                writer.add_large("/etc/passwd", [b"1"])

    def test_a_store_that_fails_in_the_background_is_told_at_the_latest_in_the_end(
        self, store: BackupStore, tmp_path: Path
    ) -> None:
        (tmp_path / "store" / STREAM).mkdir()
        (tmp_path / "store" / STREAM / "packs").write_text("in the way")

        with store.writer(STREAM) as writer:
            member = writer.add("counts/a", b"1")
            with pytest.raises(HomeUnavailable, match="cannot be used"):
                writer.close([member])

    def test_what_a_killed_run_has_sent_is_used(self, store: BackupStore) -> None:
        files = some_files()
        with store.writer(STREAM) as writer:
            writer.close(copy_into(writer, files))

        backup = make_backup(store, files)

        assert backup.added_files == 0
        assert verify(store, backup.id, Level.FULL, by="kim", now=NOON).holds

    def test_what_is_doomed_is_not_referred_to(self, store: BackupStore) -> None:
        files = some_files()
        first = make_backup(store, files)
        pack = next(path for path in sizes(store) if path.endswith(".tar.gz"))
        DoomedObjects(store.blobs, STREAM).add([pack], by="kim", at=NOON)

        second = make_backup(store, files, number=2)

        assert second.added_files == first.files

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
        with store.writer(STREAM) as writer:
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
        monkeypatch.setattr("airflow_streaming.checkpoint.verify.MAX_NAMED", 1)
        files = some_files(large=2)
        first = make_backup(store, files)
        flip_a_byte(store, LARGE_FILE)
        flip_a_byte(store, ".tar.gz")
        assert len(verify(store, first.id, Level.FULL, by="kim", now=NOON).facts["damaged"]) < 100

        second = make_backup(store, files, number=2)

        assert second.added_files == len(files)
        assert verify(store, second.id, Level.FULL, by="kim", now=NOON).holds


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


class TestHoldsAndDeletion:
    def test_a_hold_lasts_as_long_as_the_work(self, store: BackupStore) -> None:
        with store.hold(STREAM, "restore", "b1"):
            [held] = store.holds(STREAM)
            assert held.hold is not None
            assert (held.hold.what, held.hold.backup) == ("restore", "b1")
            assert held.beaten is not None

        assert store.holds(STREAM) == []

    def test_a_hold_beats(self, store: BackupStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("airflow_streaming.checkpoint.holds.BEAT_SECONDS", 0.01)
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
        with pytest.raises(RecordError, match="is no object"):
            store.delete_object(path)


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


def test_stamps_are_kept_short_in_members(store: BackupStore) -> None:
    backup = make_backup(store, {"counts/a": b"1"})

    [member] = store.members(backup)

    assert len(member.stamp) == 11
    assert member.stamp != stamp_of(b"1")
