from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import HomeUnavailable, RecordError, SpecError
from airflow_streaming.storage.blobs import Blobs, Elsewhere, LocalBlobs
from airflow_streaming.storage.fsspec_blobs import FsspecBlobs, open_blobs
from tests.unit.checkpoints.blobs_contract import BlobsContract
from tests.unit.storage.test_fsspec_store import PrivateMemory, RenamingFileSystem


class TestLocal(BlobsContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        return LocalBlobs(str(tmp_path / "store"))


class ExclusiveMemory(PrivateMemory):
    """fsspec's memory looks and then writes; a store's create is one step."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        if mode == "create":
            trial = PrivateMemory()
            trial.pipe_file(path, value)
            [(key, file)] = trial.store.items()
            if self.store.setdefault(key, file) is not file:
                raise FileExistsError(path)
            return
        super().pipe_file(path, value)


class TestMemory(BlobsContract):
    @pytest.fixture
    def blobs(self) -> Blobs:
        return FsspecBlobs(ExclusiveMemory(), "/store", "memory://store")


class TestRenaming(BlobsContract):
    """As on HDFS."""

    @pytest.fixture
    def blobs(self) -> Blobs:
        return FsspecBlobs(RenamingFileSystem(), "/store", "hdfs://namenode/store")


def test_bytes_that_are_there_already_are_not_written_again_on_hdfs() -> None:
    class NoRemoval(RenamingFileSystem):
        def rm_file(self, path: str) -> None:
            assert path.endswith(".tmp"), "a good object was removed"
            super().rm_file(path)

    blobs = FsspecBlobs(NoRemoval(), "/store", "hdfs://namenode/store")
    for _ in range(2):
        blobs.put("s/packs/a", b"same")
        digest, _size = blobs.keep("s/files", [b"large"])

    assert blobs.read("s/packs/a", 9) == b"same"
    assert blobs.read(f"s/files/{digest}", 9) == b"large"


def test_an_object_that_was_damaged_in_its_size_is_mended_by_writing_it_on_hdfs() -> None:
    filesystem = RenamingFileSystem()
    blobs = FsspecBlobs(filesystem, "/store", "hdfs://namenode/store")
    digest, _ = blobs.keep("s/files", [b"large"])
    filesystem.pipe_file(f"/store/s/files/{digest}", b"lbrge")

    blobs.keep("s/files", [b"large"])

    assert blobs.read(f"s/files/{digest}", 9) == b"large"
    assert [entry.name for entry in blobs.entries("s/files")] == [digest]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (tmp_path / "store" / "s" / "files").mkdir(parents=True)
    return tmp_path


def test_nothing_is_read_through_a_link(root: Path) -> None:
    files = root / "store/s/files"
    (files / "link").symlink_to(root / "outside/secret")
    (root / "store/s/packs").symlink_to(root / "outside")
    blobs = LocalBlobs(str(root / "store"))

    with pytest.raises(RecordError, match="not a file"):
        blobs.read("s/files/link", 99)
    assert blobs.read("s/packs/secret", 99) is None
    assert blobs.entries("s/packs") == []
    assert [entry.strange for entry in blobs.entries("s/files")] == ["symbolic link"]


def test_nothing_is_written_or_deleted_through_a_link(root: Path) -> None:
    (root / "store/s/packs").symlink_to(root / "outside")
    blobs = LocalBlobs(str(root / "store"))

    with pytest.raises(HomeUnavailable, match="cannot be used"):
        blobs.put("s/packs/new", b"1")
    blobs.delete("s/packs/secret")
    with pytest.raises(RecordError, match=r"s/packs is a symbolic link.*Delete the link"):
        blobs.delete_tree("s/packs")

    assert [path.name for path in (root / "outside").iterdir()] == ["secret"]


def test_a_pipe_or_a_socket_is_never_opened_for_long(root: Path) -> None:
    files = root / "store/s/files"
    os.mkfifo(files / "pipe")
    blobs = LocalBlobs(str(root / "store"))

    with pytest.raises(RecordError, match="is not a file"):
        blobs.read("s/files/pipe", 99)
    with pytest.raises(RecordError, match="is not a file"):
        blobs.stream("s/files/pipe")
    assert [entry.strange for entry in blobs.entries("s/files")] == ["pipe"]


def test_a_link_over_an_object_is_replaced_and_not_followed(root: Path) -> None:
    (root / "store/s/files/object").symlink_to(root / "outside/secret")
    blobs = LocalBlobs(str(root / "store"))

    blobs.put("s/files/object", b"new")

    assert (root / "outside/secret").read_bytes() == b"secret"
    assert blobs.read("s/files/object", 9) == b"new"


class Tagged(PrivateMemory):
    """A store whose files have tags, and that copies by itself."""

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        info = super().info(path, **options)
        if info["type"] == "file":
            info["ETag"] = str(hash(bytes(self.store[info["name"]].getvalue())))
        return info


def test_a_file_of_the_same_store_is_copied_by_the_server() -> None:
    filesystem = Tagged()
    filesystem.pipe_file("/checkpoint/1.zip", b"state")
    blobs = FsspecBlobs(filesystem, "/store", "memory://store")

    copy = blobs.server_copy(Elsewhere(filesystem, "/checkpoint/1.zip"))

    assert copy is not None
    assert copy.to("s/files/a")
    assert blobs.read("s/files/a", 9) == b"state"
    assert [entry.name for entry in blobs.entries("s/files")] == ["a"]


def test_a_file_that_was_written_anew_meanwhile_is_not_taken_for_the_one_that_was_read() -> None:
    filesystem = Tagged()
    filesystem.pipe_file("/checkpoint/1.zip", b"state")
    blobs = FsspecBlobs(filesystem, "/store", "memory://store")
    copy = blobs.server_copy(Elsewhere(filesystem, "/checkpoint/1.zip"))
    filesystem.pipe_file("/checkpoint/1.zip", b"other")

    assert copy is not None
    assert not copy.to("s/files/a")
    assert blobs.entries("s/files") == []


@pytest.mark.parametrize("other", [PrivateMemory(region="elsewhere"), RenamingFileSystem()])
def test_a_file_of_another_store_is_not_copied_by_the_server(other: Any) -> None:
    blobs = FsspecBlobs(Tagged(), "/store", "memory://store")

    assert blobs.server_copy(Elsewhere(other, "/checkpoint/1.zip")) is None


def test_a_folder_is_opened_locally_and_a_uri_through_fsspec(tmp_path: Path) -> None:
    assert isinstance(open_blobs(str(tmp_path / "store")), LocalBlobs)
    assert isinstance(open_blobs("memory://store"), FsspecBlobs)
    with pytest.raises(SpecError, match="backup store"):
        open_blobs("relative/folder")


def test_a_socket_in_the_store_is_reported_as_no_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A socket's path may have a hundred characters only.
    monkeypatch.chdir(root / "store/s/files")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with pytest.raises(RecordError, match="not a file"):
            LocalBlobs(str(root / "store")).read("s/files/socket", 9)
