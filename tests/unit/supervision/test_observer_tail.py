"""Reading the tails of checkpoints that are not ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest

from airflow_streaming.exceptions import HomeUnavailable, RecordError, SpecError
from airflow_streaming.storage.blobs import time_in
from airflow_streaming.storage.folders import Folders, RemoteFolders, open_folders
from airflow_streaming.supervision.external.observer import MAX_CHECKPOINTS, Tails
from tests.golden import golden_checkpoints
from tests.unit.supervision.checkpoints import Checkpoint, fingerprint

START = 1_795_262_400


def local(folder: Path) -> Folders:
    return open_folders(str(folder))


def through_fsspec(folder: Path) -> Folders:
    return open_folders(str(folder), filesystem=fsspec.filesystem("file"))


@pytest.fixture(params=[local, through_fsspec])
def opened(request: pytest.FixtureRequest) -> Callable[[Path], Folders]:
    found: Callable[[Path], Folders] = request.param
    return found


def test_the_newest_batches_are_told(tmp_path: Path, opened: Callable[[Path], Folders]) -> None:
    checkpoint = Checkpoint(tmp_path / "orders")
    checkpoint.run(*range(30))
    checkpoint.plan(29, at=290, watermark_ms=START * 1000)
    checkpoint.commit(29, at=292, watermark_ms=(START + 60) * 1000)
    checkpoint.plan(30, at=300, watermark_ms=(START + 60) * 1000)

    (tail,) = Tails(opened(tmp_path / "orders")).read()

    assert (tail.name, tail.query_id) == ("orders", "e28f-0-0-0-1")
    assert (tail.committed, tail.planned, tail.offsets) == (29, 30, ("290",))
    assert tail.committed_at == datetime.fromtimestamp(START + 292, UTC)
    assert tail.watermark == datetime.fromtimestamp(START, UTC), "the next one's is not yet true"
    assert tail.durations == (2.0,) * 20
    assert tail.intervals == (10.0,) * 19
    assert tail.unknown is None


def test_a_link_among_the_checkpoints_is_not_followed(
    tmp_path: Path, opened: Callable[[Path], Folders]
) -> None:
    Checkpoint(tmp_path / "elsewhere").run(0)
    Checkpoint(tmp_path / "root/counts").run(0)
    (tmp_path / "root/joined").symlink_to(tmp_path / "elsewhere")

    tails = Tails(opened(tmp_path / "root")).read()

    assert [(tail.name, tail.committed, tail.unknown is None) for tail in tails] == [
        ("counts", 0, True),
        ("joined", None, False),
    ]


def test_a_committed_batch_is_planned_no_more(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.run(0, 1)

    (tail,) = Tails(local(tmp_path)).read()

    assert (tail.committed, tail.planned) == (1, None)


def test_the_first_batch_is_planned_before_anything_is_committed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    (checkpoint.folder / "commits").rmdir()
    checkpoint.plan(0)

    (tail,) = Tails(local(tmp_path)).read()

    assert (tail.committed, tail.planned, tail.offsets) == (None, 0, ())


def test_a_folder_of_checkpoints_is_a_stream_of_several_queries(
    tmp_path: Path, opened: Callable[[Path], Folders]
) -> None:
    for name in ("orders", "items"):
        Checkpoint(tmp_path / name).run(0)
    (tmp_path / "notes").mkdir()
    (tmp_path / "_spark_metadata" / "offsets").mkdir(parents=True)

    assert [tail.name for tail in Tails(opened(tmp_path)).read()] == ["items", "orders"]


def test_where_there_is_no_checkpoint_there_is_no_tail(
    tmp_path: Path, opened: Callable[[Path], Folders]
) -> None:
    assert Tails(opened(tmp_path / "missing")).read() == ()


def test_no_name_is_read_of_a_folder_without_a_checkpoint(
    tmp_path: Path, opened: Callable[[Path], Folders]
) -> None:
    folder = tmp_path / "etc"
    for name in ("shadow.d", "ssl"):
        (folder / name).mkdir(parents=True)
    (folder / "passwd").write_text("root")
    assert Tails(opened(folder)).read() == ()

    (folder / "mtab").symlink_to("/proc/mounts")
    (folder / "localtime").symlink_to("/usr/share/zoneinfo/UTC")
    (tail,) = Tails(opened(folder)).read()

    assert (tail.name, tail.committed) == ("etc", None)
    assert tail.unknown is not None
    assert "2 links" in tail.unknown
    assert "mtab" not in tail.unknown


def test_junk_is_passed_over(tmp_path: Path, opened: Callable[[Path], Folders]) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.run(0, 1)
    for junk in (".2.crc", "2.tmp", "002", "-3", "9" * 19, "latest", "\u0663"):
        checkpoint.write(f"offsets/{junk}", "junk")
    (tmp_path / "offsets" / "5").mkdir()

    (tail,) = Tails(opened(tmp_path)).read()

    assert (tail.committed, tail.planned, tail.unknown) == (1, None, None)


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("offsets/2", "v3\n{}", "offsets/2: The offset log is of version v3"),
        ("offsets/1", "", "offsets/1: The offset log does not begin with a version"),
        ("commits/1", "v9\n{}", "commits/1: The commit log is of version v9"),
        ("commits/1", "v1\n" + " " * 2_000_000, "larger than 1048576 bytes"),
    ],
)
def test_what_is_not_understood_is_told_and_not_guessed(
    tmp_path: Path, path: str, text: str, why: str, opened: Callable[[Path], Folders]
) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.run(0, 1)
    checkpoint.write(path, text)

    (tail,) = Tails(opened(tmp_path)).read()

    assert tail.unknown is not None
    assert why in tail.unknown


def test_a_file_that_was_unreadable_is_read_again(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.run(0)
    checkpoint.write("offsets/1", "", at=10)
    tails = Tails(local(tmp_path))
    assert tails.read()[0].unknown is not None

    checkpoint.plan(1, at=10)

    assert tails.read()[0].unknown is None


def test_a_batch_that_was_purged_meanwhile_is_not_known(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.run(0, 1)
    (tmp_path / "offsets" / "1").unlink()

    (tail,) = Tails(local(tmp_path)).read()

    assert (tail.committed, tail.offsets, tail.unknown) == (1, (), None)


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.run(0)
    os.mkfifo(tmp_path / "offsets" / "1")

    (tail,) = Tails(local(tmp_path)).read()

    assert tail.unknown is not None
    assert "is not a file" in tail.unknown


def test_nothing_is_written_and_no_time_is_changed(
    tmp_path: Path, opened: Callable[[Path], Folders]
) -> None:
    checkpoint = Checkpoint(tmp_path / "orders")
    checkpoint.run(0, 1)
    before = fingerprint(tmp_path)

    for folder in (tmp_path, tmp_path / "orders", tmp_path / "missing"):
        Tails(opened(folder)).read()

    assert fingerprint(tmp_path) == before


class Counted:
    """Folders that count what is asked of them."""

    def __init__(self, folders: Folders) -> None:
        self.uri, self._folders = folders.uri, folders
        self.listed, self.read_files = list[str](), list[str]()

    def entries(self, folder: str, choose: Any) -> Any:
        self.listed.append(folder)
        return self._folders.entries(folder, choose)

    def read(self, path: str, limit: int) -> bytes | None:
        self.read_files.append(path)
        return self._folders.read(path, limit)


def test_a_look_at_a_quiet_checkpoint_is_two_listings(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.run(*range(50))
    folders = Counted(local(tmp_path))
    tails = Tails(folders)
    tails.read()
    assert sorted(folders.read_files) == ["commits/49", "metadata", "offsets/49"]

    folders.listed, folders.read_files = [], []
    tails.read()

    assert (folders.listed, folders.read_files) == (["offsets", "commits"], [])


def test_a_folder_of_very_many_checkpoints_is_not_one_stream(tmp_path: Path) -> None:
    for number in range(MAX_CHECKPOINTS + 1):
        (tmp_path / f"q{number}").mkdir()

    with pytest.raises(RecordError, match="Give the checkpoint of one query"):
        Tails(local(tmp_path)).read()


def test_a_folder_of_too_many_names_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[Path], Folders]
) -> None:
    Checkpoint(tmp_path).run(*range(10))
    monkeypatch.setattr("airflow_streaming.storage.folders.MAX_NAMES", 9)

    with pytest.raises(RecordError, match="more than 9 names"):
        Tails(opened(tmp_path)).read()


def test_a_store_that_is_away_says_nothing_of_the_stream(tmp_path: Path) -> None:
    class Away:
        def invalidate_cache(self, path: str) -> None: ...

        def ls(self, path: str, detail: bool) -> None:
            raise OSError("no route to host")

    with pytest.raises(HomeUnavailable, match="no route to host"):
        Tails(RemoteFolders(Away(), "bucket/ck", "s3://bucket/ck")).read()


def test_a_folder_that_may_not_be_read_says_nothing_of_the_stream(tmp_path: Path) -> None:
    (tmp_path / "offsets").symlink_to(tmp_path / "offsets")

    with pytest.raises(HomeUnavailable, match="credentials may read there"):
        Tails(local(tmp_path)).read()


@pytest.mark.parametrize("uri", ["relative/folder", "/a/../b", "s3://key:secret@bucket/x", ""])
def test_a_location_has_to_be_a_plain_and_full_one(uri: str) -> None:
    with pytest.raises(SpecError):
        open_folders(uri)


@pytest.mark.parametrize(
    ("info", "time"),
    [
        pytest.param({"mtime": 1795262400.5}, 1795262400.5, id="local"),
        pytest.param({"LastModified": datetime.fromtimestamp(START, UTC)}, START, id="S3"),
        pytest.param({"mtime": datetime(2026, 11, 21, 12)}, START, id="HDFS"),  # noqa: DTZ001 - as it tells
        pytest.param({"updated": "2026-11-21T12:00:00.000Z"}, START, id="GCS"),
        pytest.param({"last_modified": datetime.fromtimestamp(START, UTC)}, START, id="ABFS"),
        pytest.param({"modificationTime": START * 1000}, START, id="WebHDFS"),
        pytest.param({"updated": "yesterday"}, None, id="no time"),
        pytest.param({"mtime": 1e300}, None, id="too large"),
        pytest.param({"mtime": True}, None, id="not a number"),
        pytest.param({}, None, id="none"),
    ],
)
def test_every_file_system_tells_times_in_its_own_words(
    info: dict[str, Any], time: float | None
) -> None:
    found = time_in(info)

    assert (found.timestamp() if found else None) == time


def test_an_object_store_is_listed_with_its_own_times() -> None:
    store = fsspec.filesystem("memory")
    store.pipe("/bucket/ck/offsets/0", b'v1\n{"batchTimestampMs":1}\n7')
    store.pipe("/bucket/ck/commits/0", b"v1\n{}")
    try:
        (tail,) = Tails(open_folders("memory://bucket/ck", filesystem=store)).read()
    finally:
        store.rm("/bucket", recursive=True)

    assert (tail.committed, tail.offsets) == (0, ("7",))
    assert len(tail.durations) == 1


def test_a_store_is_opened_by_its_uri() -> None:
    assert Tails(open_folders("memory://bucket/nothing")).read() == ()


def test_a_store_that_nothing_is_installed_for_is_said() -> None:
    with pytest.raises(SpecError, match="Install the fsspec file system"):
        open_folders("nosuch://bucket/ck")


def test_a_store_that_cannot_be_set_up_says_nothing_of_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(uri: str, **options: Any) -> None:
        raise ConnectionError("no credentials")

    monkeypatch.setattr("fsspec.core.url_to_fs", fail)

    with pytest.raises(HomeUnavailable, match="no credentials"):
        open_folders("memory://bucket/ck")


def test_a_checkpoint_whose_metadata_is_nonsense_only_lacks_its_id(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.run(0)
    checkpoint.write("metadata", " " * 2_000_000)

    (tail,) = Tails(local(tmp_path)).read()

    assert (tail.committed, tail.query_id, tail.unknown) == (0, None, None)


def test_every_golden_checkpoint_is_understood() -> None:
    found = {golden: Tails(local(golden.path)).read()[0] for golden in golden_checkpoints()}

    assert [golden.name for golden, tail in found.items() if tail.unknown] == []
    assert [golden.name for golden, tail in found.items() if tail.committed is None] == []
    assert [golden.name for golden, tail in found.items() if not tail.offsets] == []
    assert {golden.spark for golden in found} == {"3.5.9", "4.1.4", "4.3.0"}
    assert len(found) == 36


def test_the_names_in_a_folder_without_a_checkpoint_are_not_told(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    (folder / "ssl").mkdir(parents=True)
    (folder / "secret-tool.conf").write_text("x")
    (folder / "alternative").symlink_to(folder / "ssl")

    (tail,) = Tails(open_folders(str(folder))).read()

    assert tail.name == "etc"
    assert tail.unknown is not None
    assert not any(name in tail.unknown for name in ("ssl", "secret-tool", "alternative"))
