"""A walk sees every file once, follows nothing, opens nothing and does not mind a live checkpoint."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Any

import fsspec
import pytest

from airflow_streaming.exceptions import CheckpointError, HomeUnavailable, RecordError
from airflow_streaming.model.spark.listing import Listing
from airflow_streaming.storage import trees as limits
from airflow_streaming.storage.folders import Folders, RemoteFolders, open_folders, walk
from tests.unit.storage.test_fsspec_store import PrivateMemory


def local(folder: Path) -> Folders:
    return open_folders(str(folder))


def remote(folder: Path) -> Folders:
    return open_folders(str(folder), filesystem=fsspec.filesystem("file"))


@pytest.fixture(params=[local, remote], ids=["local", "remote"])
def found(request: pytest.FixtureRequest, tmp_path: Path) -> Folders:
    """Return a small checkpoint, read as a local folder and through fsspec."""
    for path in ("metadata", "offsets/0", "offsets/.0.crc", "state/0/1/SSTs/1.sst"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    made: Folders = request.param(tmp_path)
    return made


def test_every_file_is_listed_with_its_size(found: Folders) -> None:
    listing = walk(found)

    assert {path: stat.size for path, stat in listing.paths()} == {
        path: len(path)
        for path in ("metadata", "offsets/0", "offsets/.0.crc", "state/0/1/SSTs/1.sst")
    }
    assert listing.subfolders("state/0/1") == ["SSTs"]
    assert listing.strange == {}


def test_a_file_that_was_written_anew_has_another_stamp(found: Folders, tmp_path: Path) -> None:
    before = walk(found)
    os.utime(tmp_path / "offsets" / "0", ns=(10**18, 10**18))

    after = walk(found)

    assert after.stat("offsets/0") != before.stat("offsets/0")
    assert after.stat("metadata") == before.stat("metadata")


def test_a_folder_that_is_missing_is_said_to_be(tmp_path: Path) -> None:
    for folders in (local(tmp_path / "no"), remote(tmp_path / "no")):
        with pytest.raises(CheckpointError, match=r"There is no folder .*/no"):
            walk(folders)


def test_an_empty_folder_is_there(tmp_path: Path) -> None:
    for folders in (local(tmp_path), remote(tmp_path)):
        assert walk(folders) == Listing({"": {}})


def test_one_of_several_checkpoints_is_walked_by_itself(found: Folders) -> None:
    below = found.below("state").below("0")

    assert [path for path, _ in walk(below).paths()] == ["1/SSTs/1.sst"]
    assert below.uri == f"{found.uri}/state/0"
    assert below.read("1/SSTs/1.sst", 100) == b"state/0/1/SSTs/1.sst"


def test_what_is_no_file_is_noted_and_not_touched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("k")
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "state").symlink_to(secret)
    (checkpoint / "offsets" / "0").symlink_to(secret / "key")
    (checkpoint / "offsets" / "loop").symlink_to(checkpoint)
    os.mkfifo(checkpoint / "offsets" / "1")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(checkpoint / "s"))

    listing = walk(local(checkpoint))

    assert listing.strange == {
        "state": "symbolic link",
        "offsets/0": "symbolic link",
        "offsets/loop": "symbolic link",
        "offsets/1": "pipe",
        "s": "socket",
    }
    assert list(listing.paths()) == []


@pytest.mark.parametrize("path", ["offsets/0", "state/key", "offsets/1", "s", "offsets"])
def test_what_is_no_file_is_never_read(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("k")
    checkpoint = tmp_path / "c"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").symlink_to(tmp_path / "secret" / "key")
    (checkpoint / "state").symlink_to(tmp_path / "secret")
    os.mkfifo(checkpoint / "offsets" / "1")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(checkpoint / "s"))

    with pytest.raises(RecordError, match=f"{path} is not a file"):
        local(checkpoint).read(path, 100)


def test_a_folder_swapped_for_a_link_after_the_walk_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "0").write_text("k")
    checkpoint = tmp_path / "c"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text("v1")
    walk(local(checkpoint))
    (checkpoint / "offsets").rename(checkpoint / "gone")
    (checkpoint / "offsets").symlink_to(tmp_path / "secret")

    with pytest.raises(RecordError, match="behind a link"):
        local(checkpoint).read("offsets/0", 100)


@pytest.mark.parametrize("exchanged", ["c", "c/state", "c/state/0"])
def test_a_folder_that_is_exchanged_between_two_readings_is_opened_anew(
    tmp_path: Path, exchanged: str
) -> None:
    file = tmp_path / "c/state/0/1.delta"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"old")
    folders = local(tmp_path / "c")
    assert folders.read("state/0/1.delta", 100) == b"old"

    (tmp_path / exchanged).rename(tmp_path / "away")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"new")
    assert folders.read("state/0/1.delta", 100) == b"new"

    (tmp_path / exchanged).rename(tmp_path / "away too")
    assert folders.read("state/0/1.delta", 100) is None


@pytest.mark.parametrize("exchanged", ["c/state", "c/state/0"])
def test_a_link_in_place_of_a_folder_that_was_read_from_is_not_followed(
    tmp_path: Path, exchanged: str
) -> None:
    for root in ("c", "secret"):
        (tmp_path / root / "state/0").mkdir(parents=True)
        (tmp_path / root / "state/0/1.delta").write_text(root)
    folders = local(tmp_path / "c")
    assert folders.read("state/0/1.delta", 100) == b"c"

    (tmp_path / exchanged).rename(tmp_path / "away")
    (tmp_path / exchanged).symlink_to(tmp_path / "secret" / exchanged.removeprefix("c/"))

    with pytest.raises(RecordError, match="lies behind a link"):
        folders.read("state/0/1.delta", 100)


def test_reading_many_folders_in_turn_keeps_few_of_them_open(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"state/0/{number}").mkdir(parents=True)
        (tmp_path / f"state/0/{number}/1.delta").write_bytes(b"1")
    folders, before = local(tmp_path), len(list(Path("/proc/self/fd").iterdir()))

    for number in range(50):
        assert folders.read(f"state/0/{number}/1.delta", 100) == b"1"

    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 4


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "metadata").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folders = local(tmp_path / "link")

    assert [path for path, _ in walk(folders).paths()] == ["metadata"]
    assert folders.read("metadata", 10) == b"{}"


@pytest.mark.parametrize("name", [b"0\n", b"\xff\xfe", b"a\x1b[31m"], ids=repr)
def test_names_that_cannot_be_printed_are_strange_and_shown_escaped(
    tmp_path: Path, name: bytes
) -> None:
    (tmp_path / "offsets").mkdir()
    os.close(os.open(os.path.join(os.fsencode(tmp_path), b"offsets", name), os.O_CREAT))  # noqa: PTH118 - bytes

    listing = walk(local(tmp_path))

    (shown,) = listing.strange
    assert shown.isprintable()
    assert listing.files("offsets") == {}


class FakeStore:
    """An object store that lists whatever it is told to."""

    def __init__(self, *infos: dict[str, Any]) -> None:
        self._infos = infos

    def invalidate_cache(self, path: str) -> None: ...

    def find(self, path: str, detail: bool) -> dict[str, dict[str, Any]]:
        return {info["name"]: info for info in self._infos}

    def isdir(self, path: str) -> bool:
        return False


def store_of(*infos: dict[str, Any]) -> Listing:
    return walk(RemoteFolders(FakeStore(*infos), "bucket/ck", "s3://bucket/ck"))


def an_object(path: str, **more: Any) -> dict[str, Any]:
    return {"name": f"bucket/ck/{path}", "size": 3, "type": "file", **more}


@pytest.mark.parametrize(
    "path", ["../other/key", "offsets/../../x", "offsets//0", "./0", "offsets/0\n"]
)
def test_objects_whose_names_lead_elsewhere_are_strange(path: str) -> None:
    listing = store_of(an_object(path), an_object("metadata"))

    assert [found for found, _ in listing.paths()] == ["metadata"]
    assert len(listing.strange) == 1


def test_markers_of_folders_are_folders() -> None:
    listing = store_of(an_object(""), an_object("state/", size=0), an_object("metadata"))

    assert listing.subfolders("") == ["state"]
    assert [path for path, _ in listing.paths()] == ["metadata"]


def test_the_stores_tag_is_the_stamp() -> None:
    listing = store_of(an_object("a", ETag='"1"'), an_object("b", ETag='"2"'), an_object("c"))

    stamps = [stat.stamp for _, stat in listing.paths()]
    assert stamps == ['"1"', '"2"', ""]


def test_a_tree_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    deep = "/".join("abcdefghijklmn")
    (tmp_path / deep).mkdir(parents=True)
    (tmp_path / deep / "x").write_text("")

    for folders in (local(tmp_path), remote(tmp_path)):
        with pytest.raises(CheckpointError, match="12 levels deep"):
            walk(folders)


def test_a_tree_with_too_many_files_is_refused(
    found: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_FILES", 3)

    with pytest.raises(CheckpointError, match="more than 3 files"):
        walk(found)


def test_a_file_and_a_folder_that_vanish_during_the_walk_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    (tmp_path / "state").mkdir()
    real = os.scandir

    def and_then_purge(handle: Any) -> Any:
        entries = list(real(handle))
        for path in (tmp_path / "offsets" / "0", tmp_path / "state"):
            if path.is_dir():
                path.rmdir()
            elif path.exists() and entries and entries[0].name == "0":
                path.unlink()
        return contextlib.nullcontext(entries)

    monkeypatch.setattr(os, "scandir", and_then_purge)

    assert walk(local(tmp_path)) == Listing({"": {}, "offsets": {}})


def test_a_store_that_is_away_is_not_a_missing_checkpoint() -> None:
    class Away(FakeStore):
        def find(self, path: str, detail: bool) -> dict[str, dict[str, Any]]:
            raise ConnectionError("no route")

    with pytest.raises(HomeUnavailable, match="no route"):
        walk(RemoteFolders(Away(), "bucket/ck", "s3://bucket/ck"))


def test_an_empty_file_of_a_store_that_gives_no_range_of_nothing_is_read() -> None:
    class RangeRefused(OSError):
        response = {"ResponseMetadata": {"HTTPStatusCode": 416}}  # noqa: RUF012 - as botocore

    class Refusing(PrivateMemory):
        def cat_file(
            self, path: str, start: int | None = None, end: int | None = None, **options: Any
        ) -> bytes:
            if end is not None and self.info(path)["size"] == 0:
                raise RangeRefused("InvalidRange")
            return bytes(super().cat_file(path, start, end, **options))

    filesystem = Refusing()
    filesystem.pipe_file("/checkpoint/commits/3", b"")
    filesystem.pipe_file("/checkpoint/commits/4", b"v1")
    folders = RemoteFolders(filesystem, "/checkpoint", "s3://checkpoint")

    assert folders.read("commits/3", 10) == b""
    assert folders.read("commits/4", 10) == b"v1"
