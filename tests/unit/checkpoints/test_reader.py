"""Reading a checkpoint where it lies: from a folder of this machine or through fsspec, live too."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import cast

import fsspec
import pytest

from airflow_streaming.checkpoints.read.reading import likely_reads
from airflow_streaming.checkpoints.read.report import FindingCode
from airflow_streaming.checkpoints.reader import (
    Reader,
    find_queries,
    inspect,
    query_folders,
    read_ahead,
)
from airflow_streaming.exceptions import (
    CheckpointError,
    CheckpointRefused,
    RecordError,
    SpecError,
)
from airflow_streaming.model.spark.listing import Listing
from airflow_streaming.storage.folders import (
    Folders,
    LocalFolders,
    RemoteFolders,
    open_folders,
    walk,
)
from tests.golden import golden_checkpoint
from tests.patience import PATIENCE
from tests.unit.supervision.checkpoints import Checkpoint, fingerprint


def test_a_checkpoint_is_read_from_python_by_its_uri() -> None:
    golden = golden_checkpoint("4.3.0", "agg")

    found = inspect(str(golden.path))

    assert (found.uri, found.last_committed_batch) == (str(golden.path), 6)
    assert found.is_sound


def test_it_reads_the_same_through_fsspec() -> None:
    path = str(golden_checkpoint("4.3.0", "agg_rocks_v2").path)

    remote = Reader(open_folders(path, filesystem=fsspec.filesystem("file"))).inspect()

    assert remote == inspect(path)


def test_reading_changes_nothing() -> None:
    golden = golden_checkpoint("4.3.0", "agg_rocks")
    before = fingerprint(golden.path)

    Reader(open_folders(str(golden.path))).inspect(thorough=True)

    assert fingerprint(golden.path) == before


def test_a_checkpoint_reached_through_a_link_owns_its_files(tmp_path: Path) -> None:
    real = golden_checkpoint("4.3.0", "agg").copy_to(tmp_path / "real")
    metadata = real / "state" / "0" / "_metadata"
    folder = Path(__file__).parent / "state_variables"
    told = (folder / "operator_metadata-4.3.0").read_text(encoding="utf-8")
    (metadata / "v2").mkdir()
    (metadata / "v2" / "0").write_text(told.replace("/data/orders", str(real)), encoding="utf-8")
    schema = real / "state" / "0" / "_stateSchema" / "default"
    schema.mkdir(parents=True)
    shutil.copy(folder / "state_schema-4.3.0", schema / "0_0f52bea6-386a-48c0-bd3c-c51bff4e2053")
    (tmp_path / "link").symlink_to(real)

    assert inspect(str(tmp_path / "link")).problems == ()
    moved = shutil.copytree(real, tmp_path / "moved")
    assert {problem.code for problem in inspect(str(moved)).problems} == {FindingCode.FOREIGN_PATH}


class Moving(LocalFolders):
    """A checkpoint whose query goes on between two walks."""

    def __init__(self, checkpoint: Checkpoint, *steps: str) -> None:
        super().__init__(str(checkpoint.folder))
        self._checkpoint, self._steps = checkpoint, list(steps)
        self.walks = 0

    def tree(self) -> Listing | None:
        listing = super().tree()
        self.walks += 1
        if self._steps:
            getattr(self._checkpoint, self._steps.pop(0))(3)
        return listing


def test_what_was_only_half_seen_of_a_live_checkpoint_is_no_problem(tmp_path: Path) -> None:
    live = Checkpoint(tmp_path, query_id="e28f-0-0-0-1")
    live.run(0, 1, 2)
    live.commit(3)
    folders = Moving(live, "plan")

    found = Reader(folders).inspect()

    assert (found.problems, found.last_planned_batch, folders.walks) == ((), 3, 2)


def test_what_is_wrong_with_a_checkpoint_at_rest_is_told_after_a_second_walk(
    tmp_path: Path,
) -> None:
    broken = Checkpoint(tmp_path)
    broken.run(0, 1, 2)
    broken.plan(3)
    broken.plan(4)
    folders = Moving(broken)

    found = Reader(folders).inspect()

    assert [problem.code for problem in found.problems] == [FindingCode.BATCHES_SKIPPED]
    assert folders.walks == 2


def test_a_uri_is_of_one_query_or_of_a_folder_of_them(tmp_path: Path) -> None:
    for name in ("counts", "joined"):
        Checkpoint(tmp_path / name).run(0)
    (tmp_path / "notes").mkdir()
    (tmp_path / "_old").mkdir()
    (tmp_path / "README").write_text("")

    assert query_folders(open_folders(str(tmp_path))) == ["counts", "joined"]
    assert query_folders(open_folders(str(tmp_path / "counts"))) == [""]
    assert inspect(str(tmp_path / "counts")).is_sound


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "to a checkpoint": lambda place, elsewhere: place.symlink_to(elsewhere),
    "to a folder that is none": lambda place, _: place.symlink_to("/etc"),
    "to a file": lambda place, _: place.symlink_to("/etc/passwd"),
    "to nowhere": lambda place, _: place.symlink_to("/no/such/place"),
    "to itself": lambda place, _: place.symlink_to(place),
    "a pipe": lambda place, _: os.mkfifo(place),
}


@pytest.mark.parametrize("is_alone", [False, True], ids=["beside a query", "alone"])
@pytest.mark.parametrize("make", LINKS.values(), ids=LINKS.keys())
@pytest.mark.parametrize("remote", [False, True], ids=["local", "fsspec"])
def test_a_link_in_a_folder_of_queries_is_reported_and_never_followed(
    tmp_path: Path, make: Callable[[Path, Path], None], is_alone: bool, remote: bool
) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    root.mkdir()
    Checkpoint(elsewhere).run(0)
    if not is_alone:
        Checkpoint(root / "counts").run(0)
    make(root / "joined", elsewhere)
    store = fsspec.filesystem("file") if remote else None
    folders = open_folders(str(root), filesystem=store)

    found = find_queries(folders)

    assert found.names == (() if is_alone else ("counts",))
    assert [(one.code, one.path) for one in found.problems] == [
        (FindingCode.STRANGE_FILE, "joined")
    ]
    with pytest.raises(CheckpointRefused):
        query_folders(folders)


def test_a_folder_of_checkpoints_may_itself_be_reached_through_a_link(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "real/counts").run(0)
    (tmp_path / "real/_old").symlink_to("/etc")
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert query_folders(open_folders(str(tmp_path / "link"))) == ["counts"]


def test_a_folder_of_checkpoints_is_not_inspected_as_one(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "counts").run(0)

    with pytest.raises(CheckpointError, match="a folder of 1: counts"):
        inspect(str(tmp_path))


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_what_is_no_checkpoint_at_all_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()

    for ask in (lambda uri: query_folders(open_folders(uri)), inspect):
        with pytest.raises(CheckpointError):
            ask(str(tmp_path / name))


def test_a_folder_of_very_many_folders_is_none_of_a_stream(tmp_path: Path) -> None:
    for number in range(201):
        (tmp_path / str(number)).mkdir()

    with pytest.raises(CheckpointError, match="201 folders"):
        query_folders(open_folders(str(tmp_path)))


def test_a_uri_that_is_none_is_the_users_to_mend() -> None:
    with pytest.raises(SpecError):
        inspect("checkpoints/counts")


def cut_back(checkpoint: Path) -> None:
    for log in ("offsets", "commits"):
        (checkpoint / log / "11").unlink()


def tear(checkpoint: Path) -> None:
    newest = checkpoint.parent / "sink" / "_spark_metadata" / "11"
    newest.write_bytes(newest.read_bytes()[:40])


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        pytest.param(lambda checkpoint: None, set(), id="a sink log of the same moment"),
        pytest.param(cut_back, {FindingCode.SINK_LOG_AHEAD}, id="a checkpoint taken back"),
        pytest.param(tear, {FindingCode.SINK_LOG_UNREADABLE}, id="a torn entry"),
    ],
)
def test_the_log_of_a_file_sink_is_compared_when_it_is_given(
    tmp_path: Path, change: Callable[[Path], None], codes: set[FindingCode]
) -> None:
    checkpoint = golden_checkpoint("4.3.0", "stateless").copy_to(tmp_path)
    change(checkpoint)

    sink_log = open_folders(str(tmp_path / "sink" / "_spark_metadata"))
    found = Reader(open_folders(str(checkpoint)), sink_log).inspect()

    assert {problem.code for problem in found.problems} == codes


def in_memory_store(shape: str, uri: str) -> Folders:
    """Return a golden checkpoint in an object store, which has none of Hadoop's hidden files."""
    store, root = fsspec.filesystem("memory"), golden_checkpoint("4.3.0", shape).path
    for path in root.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            store.pipe_file(f"{uri[9:]}/{path.relative_to(root)}", path.read_bytes())
    return open_folders(uri, filesystem=store)


@pytest.mark.parametrize("shape", ["agg", "agg_rocks_v2", "join_rocks", "many_batches"])
def test_an_object_store_is_asked_ahead_for_everything_that_is_read(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = in_memory_store(shape, f"memory://ahead/{shape}")
    ahead = likely_reads(walk(folders))
    asked: list[str] = []
    monkeypatch.setattr("airflow_streaming.checkpoints.reader.AT_ONCE", 1)
    real = RemoteFolders.read

    def noting(self: RemoteFolders, path: str, limit: int) -> bytes | None:
        asked.append(path)
        return real(self, path, limit)

    monkeypatch.setattr(RemoteFolders, "read", noting)

    found = Reader(folders).inspect()

    assert found == replace(inspect(str(golden_checkpoint("4.3.0", shape).path)), uri=found.uri)
    assert asked[len(ahead) :] == []


def test_files_of_an_object_store_are_fetched_several_at_once() -> None:
    folders = in_memory_store("agg", "memory://at-once/agg")
    met = Barrier(4)

    class Waiting:
        def read(self, path: str, limit: int) -> bytes | None:
            # Nobody goes on before four are here, so one at a time would never end.
            met.wait(PATIENCE)
            return folders.read(path, limit)

    read = read_ahead(cast(Folders, Waiting()), [f"offsets/{batch}" for batch in range(4)])

    assert read("offsets/3", 10_000) == folders.read("offsets/3", 10_000)


def test_a_file_that_is_gone_by_then_is_asked_for_again(tmp_path: Path) -> None:
    read = read_ahead(open_folders(str(tmp_path)), ["metadata"])
    (tmp_path / "metadata").write_text("{}")

    assert read("metadata", 10) == b"{}"
    with pytest.raises(RecordError, match="larger than 1 bytes"):
        read("metadata", 1)
