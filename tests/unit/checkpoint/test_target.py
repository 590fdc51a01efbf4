"""A new place becomes a checkpoint in one last step, is nobody else's, and is never written over."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_streaming.checkpoint.local_target import LocalTarget
from airflow_streaming.checkpoint.remote_target import SMALL, RemoteTarget
from airflow_streaming.checkpoint.target import Target, open_target
from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER
from airflow_streaming.exceptions import HomeUnavailable, RecordError, RestoreRefused, SpecError
from tests.unit.checkpoint.restoring import Memory

Open = Callable[[str], Target]


@pytest.fixture(autouse=True)
def _no_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    # It waits for whatever else this machine is writing.
    monkeypatch.setattr(os, "sync", lambda: None)


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
    with pytest.raises(RestoreRefused, match="somebody else has written there"):
        first.finish()

    assert (tmp_path / "new/metadata").read_bytes() == b"2"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_the_leftovers_of_a_killed_restore_are_swept_and_no_neighbours(tmp_path: Path) -> None:
    killed, neighbour = LocalTarget(f"{tmp_path}/new"), LocalTarget(f"{tmp_path}/new.x")
    for target in (killed, neighbour):
        target.begin("backup-1", [""])
        write(target, "metadata", b"half")

    target = LocalTarget(f"{tmp_path}/new")
    assert target.begin("backup-1", [""])
    write(target, "metadata", b"id")
    target.finish()

    neighbour.finish()
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


def test_the_same_restore_goes_on_from_what_is_there() -> None:
    memory = Memory()
    killed = remote(memory)
    killed.begin("backup-1", ["a"])
    write(killed, "a/state/1", b"whole")
    killed.flush()

    target = remote(memory)
    assert target.begin("backup-1", ["a"])
    before = memory.life.steps
    write(target, "a/state/1", b"whole")
    write(target, "a/state/2", b"new")
    target.flush()
    assert memory.life.steps == before + 1
    target.finish()
    assert sorted(files(target)) == ["a/state/1", "a/state/2"]


def test_two_restores_whose_folders_overlap_do_not_both_get_the_place() -> None:
    memory = Memory()
    first, second = remote(memory), remote(memory)
    second.begin("backup-2", ["b"])
    memory.store.pop(f"/bucket/new/b/{RESTORE_MARKER}")
    first.begin("backup-1", ["a", "b"])

    with pytest.raises(RestoreRefused):
        second.begin("backup-2", ["b"])
