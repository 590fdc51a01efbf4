from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_streaming.driver.monitoring import file_backlog as files_waiting
from airflow_streaming.driver.monitoring.file_backlog import (
    EVERY,
    FilesWaiting,
    count_unread,
    local_folder,
    name_in,
    with_files,
)
from airflow_streaming.model.progress import SourceProgress
from tests.patience import PATIENCE


@pytest.mark.parametrize(
    ("description", "folder"),
    [
        pytest.param("FileStreamSource[file:/data/in box]", "/data/in box", id="local"),
        pytest.param("FileStreamSource[file:///data/in]", "/data/in", id="with an empty host"),
        pytest.param("FileStreamSource[file:/data/*/in]", None, id="a pattern"),
        pytest.param("FileStreamSource[s3a://bucket/in]", None, id="an object store"),
    ],
)
def test_which_folder_can_be_counted_here(description: str, folder: str | None) -> None:
    assert local_folder(description) == folder


def test_files_that_were_not_taken_wait(tmp_path: Path) -> None:
    for name in ("a b.json", "c.json", "d.json", "_SUCCESS", ".d.json.crc", "e.json._COPYING_"):
        (tmp_path / name).touch()
    taken = {name_in("file:///in/a%20b.json"), "gone.json"}
    assert count_unread(str(tmp_path), taken) == 2


def test_a_folder_that_cannot_be_judged_from_here_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").touch()
    monkeypatch.setattr(files_waiting, "MAX_FILES", 1)
    assert count_unread(str(tmp_path), set()) == 1
    (tmp_path / "b.json").touch()
    assert count_unread(str(tmp_path), set()) is None
    monkeypatch.undo()
    (tmp_path / "day=1").mkdir()
    assert count_unread(str(tmp_path), set()) is None


class Counter:
    """Counts when it may."""

    def __init__(self) -> None:
        self.now, self.calls, self.takes = 0.0, 0, 0.0
        self.may = threading.Event()
        self.may.set()
        self.files = FilesWaiting(self.count, name="q", clock=lambda: self.now)

    def count(self) -> Mapping[str, float]:
        self.calls += 1
        assert self.may.wait(PATIENCE)
        self.now += self.takes
        if self.calls == 3:
            raise OSError("the folder is gone")
        return {"s": float(self.calls)}

    def known(self) -> Mapping[str, float]:
        self.files.known()
        self.files.wait(PATIENCE)
        return self.files.known()


def test_the_count_is_renewed_at_its_interval_and_forgotten_when_it_fails() -> None:
    counter = Counter()
    assert counter.known() == {"s": 1}
    counter.now += EVERY - 1
    assert counter.known() == {"s": 1}
    counter.now += 1
    assert counter.known() == {"s": 2}
    counter.now += EVERY
    assert counter.known() == {}


def test_a_count_that_takes_long_is_rare() -> None:
    counter = Counter()
    counter.takes = 2.0
    counter.known()
    counter.now += 199
    assert counter.known() == {"s": 1}
    counter.now += 1
    assert counter.known() == {"s": 2}


def test_a_count_that_hangs_holds_nobody_up() -> None:
    counter = Counter()
    counter.may.clear()
    assert counter.files.known() == {}
    counter.now += 10 * EVERY
    assert counter.files.known() == {}
    counter.may.set()
    counter.files.wait(PATIENCE)
    assert counter.calls == 1


def test_a_count_goes_to_the_source_it_is_of() -> None:
    mine = SourceProgress(source="FileStreamSource[file:/in]")
    other = SourceProgress(source="KafkaV2[orders]")
    told = SourceProgress(source="FileStreamSource[file:/in]", backlog_files=4)
    waiting = {"FileStreamSource[file:/in]": 9.0, "FileStreamSource[file:/in2]": 8.0}
    assert with_files(mine, waiting).backlog_files == 9
    assert with_files(other, waiting).backlog_files is None
    assert with_files(told, waiting).backlog_files == 4
    assert with_files(mine, {}).backlog_files is None
