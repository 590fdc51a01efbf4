"""A new place becomes a checkpoint in one last step, is nobody else's, and is never written over."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.restore.local_target import LocalTarget
from airflow_streaming.checkpoints.restore.refusal import Occupied
from airflow_streaming.checkpoints.restore.remote_target import SMALL, RemoteTarget
from airflow_streaming.checkpoints.restore.target import Target, open_target
from airflow_streaming.exceptions import (
    AlreadyExists,
    HomeUnavailable,
    RecordError,
    RestoreRefused,
    RestoreTaken,
    SpecError,
)
from airflow_streaming.model.spark.listing import RESTORE_MARKER
from airflow_streaming.storage.fsspec_store import FsspecStore
from tests.unit.checkpoints.restoring import Memory

Open = Callable[[str], Target]


@pytest.fixture(params=["local", "remote"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a target by name, on a disk or on an object store."""
    if request.param == "local":
        return lambda name: open_target(str(tmp_path / name))
    memory = Memory()
    return lambda name: open_target(f"memory://bucket/{name}", filesystem=memory)


def write(target: Target, path: str, data: bytes) -> None:
    target.write(path, len(data), (data,))


def files(target: Target) -> dict[str, bytes | None]:
    found = target.written().tree()
    assert found is not None
    return {path: target.written().read(path, 10**9) for path, _ in found.paths()}


def test_what_was_written_is_there_once_it_is_finished(anywhere: Open) -> None:
    target = anywhere("new")
    assert target.look([""]).names == ()
    assert not target.begin("backup-1", [""])
    write(target, "offsets/0", b"plan")
    write(target, "metadata", b"id")
    target.flush()
    assert target.written().read("offsets/0", 100) == b"plan"
    target.finish()

    again = anywhere("new")
    assert set(again.look([""]).names) == {"offsets", "metadata"}
    assert again.look([""]).restore == ""


def test_a_place_with_anything_in_it_is_refused(anywhere: Open) -> None:
    first = anywhere("new")
    first.begin("backup-1", ["a", "b"])
    write(first, "a/metadata", b"id")
    first.finish()

    with pytest.raises(RestoreRefused, match="empty"):
        anywhere("new").begin("backup-1", ["a", "b"])


def test_what_is_abandoned_leaves_nothing(anywhere: Open) -> None:
    target = anywhere("new")
    target.begin("backup-1", ["a"])
    write(target, "a/state/0/0/1.delta", b"state")
    target.abandon()

    assert anywhere("new").look(["a"]).names == ()
    assert not anywhere("new").begin("backup-2", ["a"])


@pytest.mark.parametrize("end", ["finish", "abandon"])
def test_no_thread_outlives_a_restore(anywhere: Open, end: str) -> None:
    before = set(threading.enumerate())
    target = anywhere("new")
    target.begin("backup-1", [""])
    write(target, "metadata", b"id")

    getattr(target, end)()

    assert set(threading.enumerate()) <= before


def test_a_file_can_be_taken_back(anywhere: Open) -> None:
    target = anywhere("new")
    target.begin("backup-1", [""])
    write(target, "state/0/0/1.delta", b"state")
    target.remove("state/0/0/1.delta")
    target.flush()

    assert set(files(target)) <= {RESTORE_MARKER}


def test_a_large_file_goes_through_in_chunks(anywhere: Open) -> None:
    def chunks() -> Iterator[bytes]:
        for number in range(6):
            yield bytes([number]) * (1024 * 1024)

    target = anywhere("new")
    target.begin("backup-1", [""])
    target.write("state/0/0/1.zip", SMALL + 1, chunks())
    target.flush()

    written = files(target)["state/0/0/1.zip"]
    assert written is not None
    assert len(written) == 6 * 1024 * 1024
    assert written[:: 1024 * 1024] == bytes(range(6))


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "a/../../out", "a//b", "./a", "a\n"])
def test_no_path_leads_out_of_the_place(anywhere: Open, path: str) -> None:
    target = anywhere("new")
    target.begin("backup-1", [""])

    def attempt() -> None:
        write(target, path, b"x")
        target.flush()

    with pytest.raises(RecordError, match="is not a path inside"):
        attempt()


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    target = LocalTarget(str(tmp_path / "new"))
    target.begin("backup-1", [""])
    write(target, "metadata", b"id")
    target.finish()

    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new/metadata").read_bytes() == b"id"


def test_a_file_in_the_way_is_something_there(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("no folder")

    with pytest.raises(RestoreRefused, match="empty"):
        LocalTarget(str(tmp_path / "new")).begin("backup-1", [""])


def test_of_two_that_write_to_one_folder_the_second_to_finish_is_refused(tmp_path: Path) -> None:
    first, second = (LocalTarget(f"file://{tmp_path}/new") for _ in range(2))
    for target, content in ((first, b"1"), (second, b"2")):
        target.begin("backup-1", [""])
        write(target, "metadata", content)

    second.finish()
    with pytest.raises(RestoreRefused, match="another process has written there"):
        first.finish()

    assert (tmp_path / "new/metadata").read_bytes() == b"2"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_place_that_another_program_filled_meanwhile_is_taken(tmp_path: Path) -> None:
    target = LocalTarget(f"{tmp_path}/new")
    target.begin("backup-1", [""])
    write(target, "metadata", b"1")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/metadata").write_bytes(b"theirs")

    with pytest.raises(RestoreTaken, match="another process has written there"):
        target.finish()

    assert (tmp_path / "new/metadata").read_bytes() == b"theirs"


@pytest.mark.parametrize("write_more", [True, False], ids=["while writing", "at the end"])
def test_a_restore_whose_folder_was_deleted_by_hand_does_not_blame_another_process(
    tmp_path: Path, write_more: bool
) -> None:
    target = LocalTarget(f"{tmp_path}/new")
    target.begin("backup-1", [""])
    write(target, "metadata", b"1")
    [beside] = tmp_path.iterdir()
    shutil.rmtree(beside)

    with pytest.raises(HomeUnavailable, match="No such file or directory"):
        write(target, "offsets", b"2") if write_more else target.finish()


def test_the_leftovers_of_a_killed_restore_are_swept_and_no_neighbors(tmp_path: Path) -> None:
    killed, neighbor = LocalTarget(f"{tmp_path}/new"), LocalTarget(f"{tmp_path}/new.x")
    for target in (killed, neighbor):
        target.begin("backup-1", [""])
        write(target, "metadata", b"half")

    target = LocalTarget(f"{tmp_path}/new")
    assert target.begin("backup-1", [""])
    write(target, "metadata", b"id")
    target.finish()

    neighbor.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "new.x"]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(HomeUnavailable, match="cannot be written"):
        LocalTarget(f"{tmp_path}/file/below/new").begin("backup-1", [""])


@pytest.mark.parametrize("uri", ["new", "s3:///new", "/a/../b"])
def test_a_place_has_to_be_a_full_uri(uri: str) -> None:
    with pytest.raises(SpecError, match="The target"):
        open_target(uri)


def remote(memory: Memory) -> RemoteTarget:
    target = open_target("memory://bucket/new", filesystem=memory)
    assert isinstance(target, RemoteTarget)
    return target


def test_on_an_object_store_a_marker_says_what_is_going_on() -> None:
    memory = Memory()
    target = remote(memory)
    target.begin("backup-1", ["a", "b"])
    markers = [f"a/{RESTORE_MARKER}", f"b/{RESTORE_MARKER}"]
    assert sorted(files(target)) == markers

    assert remote(memory).look(["a", "b"]).restore == "backup-1"
    with pytest.raises(RestoreRefused, match="another restore that was not finished"):
        remote(memory).begin("backup-2", ["a", "b"])
    assert sorted(files(target)) == markers


def test_the_same_restore_trusts_nothing_that_a_dead_one_has_left() -> None:
    memory = Memory()
    killed = remote(memory)
    killed.begin("backup-1", ["a"])
    write(killed, "a/state/1", b"torn!")
    killed.flush()

    target = remote(memory)
    assert target.begin("backup-1", ["a"])
    write(target, "a/state/1", b"whole")
    target.finish()

    assert files(target) == {"a/state/1": b"whole"}


def two_at_one_place(memory: Memory) -> tuple[RemoteTarget, RemoteTarget]:
    """Begin the same restore twice and have the second write all of it."""
    slow, fast = remote(memory), remote(memory)
    for target in (slow, fast):
        target.begin("backup-1", ["a", "b"], ["a/metadata", "b/metadata"])
    for path in ("a/metadata", "b/metadata"):
        write(fast, path, b"id")
    fast.flush()
    return slow, fast


@pytest.mark.parametrize("is_finished", [True, False], ids=["finished", "at work"])
@pytest.mark.parametrize("act", [RemoteTarget.flush, RemoteTarget.finish, RemoteTarget.abandon])
def test_whoever_lost_the_place_touches_nothing(
    act: Callable[[RemoteTarget], None], is_finished: bool
) -> None:
    memory = Memory()
    slow, fast = two_at_one_place(memory)
    if is_finished:
        fast.finish()
    before = files(fast)

    with pytest.raises(RestoreTaken, match="no longer held by this attempt"):
        act(slow)

    assert files(fast) == before
    if not is_finished:
        fast.finish()
    assert set(files(fast)) == {"a/metadata", "b/metadata"}


def test_a_restore_that_is_finished_between_look_and_claim_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = Memory()
    slow, fast = remote(memory), remote(memory)
    fast.begin("backup-1", ["a", "b"])
    write(fast, "a/metadata", b"id")
    look = slow.look

    def looking(folders: Sequence[str]) -> Occupied:
        found = look(folders)
        fast.finish()
        return found

    monkeypatch.setattr(slow, "look", looking)
    with pytest.raises(RestoreTaken, match="is not empty"):
        slow.begin("backup-1", ["a", "b"], ["a/metadata"])
    slow.abandon()

    assert files(fast) == {"a/metadata": b"id"}


def test_what_is_abandoned_goes_with_what_the_dead_one_before_left() -> None:
    memory = Memory()
    killed = remote(memory)
    killed.begin("backup-1", ["a"])
    write(killed, "a/state/1", b"old")
    killed.flush()

    target = remote(memory)
    target.begin("backup-1", ["a"], ["a/state/1", "a/metadata"])
    target.abandon()

    assert target.look(["a"]).names == ()


def test_nothing_is_removed_where_somebody_else_works_already() -> None:
    memory = Memory()
    target = remote(memory)
    target.begin("backup-1", [""], ["offsets/0"])
    write(target, "offsets/0", b"plan")
    target.flush()
    memory.pipe_file("/bucket/new/offsets/1", b"Spark")

    with pytest.raises(RestoreTaken, match=r"offsets/1 does not belong to this restore"):
        target.abandon()

    assert set(files(target)) == {RESTORE_MARKER, "offsets/0", "offsets/1"}


def test_a_marker_whose_creation_was_answered_late_is_known_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = Memory()
    target = remote(memory)
    create = FsspecStore.create

    def answered_late(store: FsspecStore, path: str, data: bytes) -> None:
        create(store, path, data)
        raise AlreadyExists(path)

    monkeypatch.setattr(FsspecStore, "create", answered_late)
    assert not target.begin("backup-1", [""])


def test_two_restores_whose_folders_overlap_do_not_both_get_the_place() -> None:
    memory = Memory()
    first, second = remote(memory), remote(memory)
    second.begin("backup-2", ["b"])
    memory.store.pop(f"/bucket/new/b/{RESTORE_MARKER}")
    first.begin("backup-1", ["a", "b"])

    with pytest.raises(RestoreRefused):
        second.begin("backup-2", ["b"])
