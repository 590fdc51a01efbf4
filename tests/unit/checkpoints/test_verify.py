from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.backup.bundles import writer_of
from airflow_streaming.checkpoints.backup.index import LARGE, seal
from airflow_streaming.checkpoints.backup.records import Backup, Verification
from airflow_streaming.checkpoints.vault.contents import Contents, contents, verified
from airflow_streaming.checkpoints.vault.layout import index_path, manifest_path
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.checkpoints.vault.verify import Examination, verify
from airflow_streaming.exceptions import BackupDamaged, BackupNotFound, HomeUnavailable, RecordError
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.model.jobs.drill import Drilled
from tests.system.corruptions import corrupt
from tests.unit.checkpoints.made import NOON, STREAM, local_store, make_backup, some_files

FILES = some_files(small=10)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return local_store(tmp_path / "store")


@pytest.fixture
def backup(store: BackupStore) -> Backup:
    return make_backup(store, FILES)


def look(store: BackupStore, backup: Backup, level: Level = Level.FULL) -> Verification:
    return verify(store, backup.id, level, by="kim", now=NOON)


def object_file(store: BackupStore, ending: str) -> Path:
    path = next(one.path for one in store.objects(STREAM) if one.path.endswith(ending))
    return Path(store.uri) / path


@pytest.mark.parametrize("level", [Level.QUICK, Level.FULL])
def test_an_intact_backup_holds_and_that_is_recorded(
    store: BackupStore, backup: Backup, level: Level
) -> None:
    found = look(store, backup, level)

    assert found.problems == ()
    assert found.facts["files"] == str(len(FILES))
    assert found.facts["objects"] == "3"
    assert store.verifications(backup.id) == [found]
    assert store.holds(STREAM) == []


def test_progress_is_told_in_bytes(store: BackupStore, backup: Backup) -> None:
    told: list[tuple[int, int]] = []

    verify(store, backup.id, Level.FULL, by="kim", now=NOON, progress=lambda *now: told.append(now))

    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1] > LARGE


@pytest.mark.parametrize("ending", [".tar.gz", ".index.gz"])
@pytest.mark.parametrize("damage", ["missing", "shorter"])
def test_a_quick_verification_finds_what_is_missing_or_of_another_size(
    store: BackupStore, backup: Backup, ending: str, damage: str
) -> None:
    file = object_file(store, ending)
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])

    found = look(store, backup, Level.QUICK)

    assert file.name in found.problems[0]
    assert "Do not rely on this backup" in found.problems[0]
    assert store.verifications(backup.id) == [found]


def test_only_a_full_verification_finds_a_flipped_bit_of_a_large_file(
    store: BackupStore, backup: Backup
) -> None:
    [large] = (Path(store.uri) / STREAM / "files").iterdir()
    data = bytearray(large.read_bytes())
    data[LARGE // 2] ^= 1
    large.write_bytes(data)

    assert look(store, backup, Level.QUICK).holds
    [problem] = look(store, backup).problems
    assert f"{large} is damaged: its digest differs from its name" in problem


def test_a_damaged_manifest_is_a_problem_and_no_crash(store: BackupStore, backup: Backup) -> None:
    manifest = Path(store.uri) / manifest_path(STREAM, backup.id)
    manifest.write_bytes(manifest.read_bytes().replace(b"kim", b"tom"))

    found = look(store, backup, Level.QUICK)

    assert "its checksum is wrong" in found.problems[0]


def test_a_result_that_may_not_be_noted_is_told_all_the_same(
    store: BackupStore,
    backup: Backup,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(path: str, data: bytes) -> None:
        raise HomeUnavailable(path) from PermissionError("no")

    monkeypatch.setattr(store.blobs, "create", refuse)

    assert look(store, backup).holds
    assert store.verifications(backup.id) == []
    assert "is not noted there" in caplog.text


def test_a_copy_of_a_manifest_under_no_backups_name_is_a_stray_file(
    store: BackupStore, backup: Backup
) -> None:
    manifest = Path(store.uri) / manifest_path(STREAM, backup.id)
    stray = manifest.with_name(f"x{manifest.name}")
    stray.write_bytes(manifest.read_bytes())

    assert look(store, backup, Level.QUICK).holds
    [problem] = look(store, backup).problems
    assert f"{stray} is not anything a backup store has" in problem


def test_a_backup_that_is_not_there_is_not_found(store: BackupStore, backup: Backup) -> None:
    for stream in (None, STREAM, "other"):
        with pytest.raises(BackupNotFound):
            verify(store, "nothing", Level.FULL, by="kim", now=NOON, stream=stream)

    assert store.streams() == [STREAM]


def put_a_link(folder: Path) -> None:
    (folder / ("a" * 64)).symlink_to("/etc/passwd")


def put_a_folder(folder: Path) -> None:
    (folder / ("a" * 64)).mkdir()


@pytest.mark.parametrize(
    "put",
    [
        pytest.param(lambda f: (f / "notes.txt").write_text("x"), id="another name"),
        pytest.param(lambda f: (f / ("a" * 64)).write_text("x"), id="a name that does not hold"),
        pytest.param(put_a_link, id="a link"),
        pytest.param(put_a_folder, id="a folder"),
    ],
)
def test_what_does_not_belong_there_is_told_but_does_not_stop_a_restore(
    store: BackupStore, backup: Backup, put: Callable[[Path], object]
) -> None:
    put(Path(store.uri) / STREAM / "files")

    [problem] = look(store, backup).problems

    assert f"{STREAM}/files/" in problem
    assert "delete it" in problem
    assert verified(store, backup).contents("counts").members


def test_what_a_killed_run_or_another_backup_has_is_no_problem(
    store: BackupStore, backup: Backup
) -> None:
    other = make_backup(store, some_files(5, small=5, large=0), number=2)
    with writer_of(store, STREAM) as writer:
        writer.close([writer.add("counts/a", b"1")])
    # The damage of another backup is its own.
    path = next(path for path in store.needed(other) if path.endswith(".tar.gz"))
    (Path(store.uri) / path).write_bytes(b"damaged")

    assert look(store, backup).holds
    assert not look(store, other).holds


def test_no_more_is_read_of_a_stray_object_than_one_can_have(
    store: BackupStore, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_backup(store, some_files(7), number=2)
    index = index_path(STREAM, other.bundles[0].index)
    with Path(store.uri, index).open("ab") as file:
        file.truncate(1 << 30)
    fresh = BackupStore(store.blobs)
    read, stream = 0, store.blobs.stream

    def counting(path: str) -> Iterator[bytes] | None:
        nonlocal read
        for chunk in stream(path) or ():
            read += len(chunk)
            yield chunk

    monkeypatch.setattr(store.blobs, "stream", counting)
    found = verify(fresh, backup.id, Level.FULL, by="kim", now=NOON)

    assert any(index in problem for problem in found.problems)
    assert read < 1 << 26


def test_an_id_in_the_manifest_that_is_another_is_found(store: BackupStore, backup: Backup) -> None:
    shutil.copyfile(
        Path(store.uri) / manifest_path(STREAM, backup.id),
        Path(store.uri) / manifest_path(STREAM, "copy"),
    )

    assert (
        "is the manifest of backup"
        in verify(store, "copy", Level.QUICK, by="kim", now=NOON).problems[0]
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"size": 5}, "says that it has", id="size"),
        pytest.param({"bundles": ()}, "says that it has", id="files"),
    ],
)
def test_a_manifest_that_does_not_agree_with_its_members_is_damaged(
    store: BackupStore, backup: Backup, changes: dict[str, object], words: str
) -> None:
    wrong = replace(backup, id="wrong", **changes)
    if not wrong.bundles:
        wrong = replace(wrong, files=0)
    store.blobs.create(manifest_path(STREAM, "wrong"), seal(wrong))

    assert words in look(store, wrong, Level.QUICK).problems[0]


def test_a_file_inside_a_file_is_damage(store: BackupStore) -> None:
    made = make_backup(store, {"counts/a": b"1", "counts/a/b": b"2"})

    assert "a file inside a file" in look(store, made, Level.QUICK).problems[0]


class TestDrill:
    def test_a_drill_is_held_only_with_a_whole_backup(
        self, store: BackupStore, backup: Backup
    ) -> None:
        drilled: list[str] = []

        def drill(_: BackupStore, one: Backup) -> Drilled:
            drilled.append(one.id)
            return Drilled(problems=("It does not start.",), facts={"spark": "4.3.0"})

        found = verify(store, backup.id, Level.DRILL, by="kim", now=NOON, drill=drill)

        assert (found.problems, found.facts["spark"]) == (("It does not start.",), "4.3.0")
        object_file(store, ".tar.gz").unlink()
        assert not verify(store, backup.id, Level.DRILL, by="kim", now=NOON, drill=drill).holds
        assert drilled == [backup.id]

    def test_what_a_drill_finds_does_not_keep_later_backups_from_referring(
        self, store: BackupStore, backup: Backup
    ) -> None:
        verify(
            store,
            backup.id,
            Level.DRILL,
            by="kim",
            now=NOON,
            drill=lambda *_: Drilled(problems=("It does not start.",), facts={}),
        )

        assert make_backup(store, FILES, number=2).added_files == 0

    def test_a_drill_needs_somebody_who_does_it(self, store: BackupStore, backup: Backup) -> None:
        with pytest.raises(ValueError, match="needs a drill function"):
            look(store, backup, Level.DRILL)


def read_all(found: Contents) -> dict[str, bytes]:
    return {one.path: b"".join(one.chunks) for one in found}


class TestContents:
    def test_every_file_is_handed_out_with_its_path_in_the_folder(
        self, store: BackupStore, backup: Backup
    ) -> None:
        found = contents(store, backup, "counts")

        read = read_all(found)

        assert read == {path.removeprefix("counts/"): data for path, data in FILES.items()}
        assert read.keys() == found.members.keys()

    def test_single_files_are_read_as_from_a_checkpoint(
        self, store: BackupStore, backup: Backup
    ) -> None:
        found = contents(store, backup, "counts")

        assert found.read("metadata", 100) == FILES["counts/metadata"]
        assert found.read("nothing", 100) is None
        assert found.read("state/0/1/0.zip", 2 * LARGE) == FILES["counts/state/0/1/0.zip"]
        with pytest.raises(RecordError, match="larger than 3 bytes"):
            found.read("metadata", 3)

    def test_the_listing_is_that_of_the_checkpoint(
        self, store: BackupStore, backup: Backup
    ) -> None:
        listing = contents(store, backup, "counts").listing

        assert listing.subfolders("") == ["offsets", "state"]
        assert {path: stat.size for path, stat in listing.paths()} == {
            path.removeprefix("counts/"): len(data) for path, data in FILES.items()
        }

    def test_a_query_has_its_own_files_only(self, store: BackupStore) -> None:
        made = make_backup(store, {"counts/a": b"1", "countsmore/a": b"2", "late/b/c": b"3"})
        whole = verified(store, made)

        assert list(whole.contents("counts").members) == ["a"]
        assert list(whole.contents("late").members) == ["b/c"]
        assert len(whole.contents("").members) == 3

    @pytest.mark.parametrize("ending", [".tar.gz", ".index.gz"])
    def test_nothing_is_handed_out_of_a_damaged_backup(
        self, store: BackupStore, backup: Backup, ending: str
    ) -> None:
        file = object_file(store, ending)
        file.write_bytes(file.read_bytes()[:-1] + b"x")

        with pytest.raises(BackupDamaged, match=r"is damaged|differs from its digest"):
            contents(store, backup, "counts")

    def test_small_files_are_handed_out_as_they_were_verified(
        self, store: BackupStore, backup: Backup
    ) -> None:
        found = contents(store, backup, "counts")
        for file in (Path(store.uri) / STREAM / "packs").iterdir():
            file.unlink()

        assert read_all(found) == {
            path.removeprefix("counts/"): data for path, data in FILES.items()
        }

    def test_only_so_many_bytes_stay_in_memory(self, store: BackupStore, backup: Backup) -> None:
        sizes = [len(data) for data in FILES.values() if len(data) < LARGE]

        def kept(most: int) -> int:
            found = Examination(store, backup, thorough=True, progress=None, keep=most)
            assert not found.run().problems
            return sum(len(one.data) for pack in found.kept.values() for one in pack)

        assert kept(sum(sizes)) == sum(sizes)
        assert kept(sum(sizes) - 1) == 0

    def test_what_rots_after_the_verification_is_found_while_it_is_read(
        self, store: BackupStore, backup: Backup, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # As in a backup that is too large to stay in memory.
        monkeypatch.setattr("airflow_streaming.checkpoints.vault.contents.KEPT", 0)
        found = contents(store, backup, "counts")
        for path in ("packs", "files"):
            for file in (Path(store.uri) / STREAM / path).iterdir():
                if not file.name.endswith(".index.gz"):
                    file.write_bytes(file.read_bytes()[:-1] + b"x")

        with pytest.raises(BackupDamaged, match="Do not rely on this backup"):
            read_all(found)
        with pytest.raises(BackupDamaged):
            found.read("state/0/1/0.zip", 2 * LARGE)


def test_random_corruptions_are_all_found_and_none_in_what_is_whole(tmp_path: Path) -> None:
    found = corrupt(tmp_path, 300, seed=3)

    assert found.missed == []
    assert found.alarms == []
    assert found.intact > 0
    assert sum(found.found.values()) == 300
