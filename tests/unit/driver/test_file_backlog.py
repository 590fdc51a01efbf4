from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_streaming.driver.sources import file_backlog as files_waiting
from airflow_streaming.driver.sources.file_backlog import (
    Waiting,
    count_unread,
    local_folder,
    name_in,
    with_files,
)
from airflow_streaming.model.progress import SourceProgress


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
    for at, name in enumerate(
        ("a b.json", "d.json", "c.json", "_SUCCESS", ".d.json.crc", "e.json._COPYING_")
    ):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1_000 + at, 1_000 + at))
    taken = {name_in("file:///in/a%20b.json"), "gone.json"}
    assert count_unread(str(tmp_path), taken) == Waiting(2, oldest=1_001)
    assert count_unread(str(tmp_path), {"a b.json", "c.json", "d.json"}) == Waiting(0, None)


def test_a_folder_that_cannot_be_judged_from_here_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").touch()
    monkeypatch.setattr(files_waiting, "MAX_FILES", 1)
    assert count_unread(str(tmp_path), set()) is not None
    (tmp_path / "b.json").touch()
    assert count_unread(str(tmp_path), set()) is None
    monkeypatch.undo()
    (tmp_path / "day=1").mkdir()
    assert count_unread(str(tmp_path), set()) is None


def test_a_count_goes_to_the_source_it_is_of() -> None:
    mine = SourceProgress(source="FileStreamSource[file:/in]")
    other = SourceProgress(source="KafkaV2[orders]")
    told = SourceProgress(source="FileStreamSource[file:/in]", backlog_files=4)
    waiting = {
        "FileStreamSource[file:/in]": Waiting(9),
        "FileStreamSource[file:/in2]": Waiting(8),
    }
    assert with_files(mine, waiting).backlog_files == 9
    assert with_files(other, waiting).backlog_files is None
    assert with_files(told, waiting).backlog_files == 4
    assert with_files(mine, {}).backlog_files is None
