from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.sources import file_backlog as files_waiting
from airflow_streaming.driver.sources.file_backlog import (
    Waiting,
    count_unread,
    local_folder,
    log_offset,
    name_in,
    planned_since,
    with_files,
    with_planned,
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


@pytest.mark.parametrize(
    ("oldest", "planned", "is_whole", "found"),
    [
        pytest.param(None, math.inf, True, (None, 900.0), id="all_is_committed"),
        pytest.param(700.0, math.inf, True, (700.0, 700.0), id="a_file_waits"),
        pytest.param(None, 600.0, True, (600.0, 600.0), id="a_file_is_in_the_batch_in_work"),
        pytest.param(700.0, 600.0, True, (600.0, 600.0), id="the_batch_in_work_is_older"),
        pytest.param(950.0, math.inf, True, (950.0, 900.0), id="written_during_the_look"),
        pytest.param(700.0, None, True, (700.0, None), id="the_planned_batch_is_unknown"),
        pytest.param(None, math.inf, False, (None, None), id="sparks_list_is_empty"),
        pytest.param(700.0, 600.0, False, (600.0, 600.0), id="sparks_list_and_a_batch_in_work"),
    ],
)
def test_files_are_read_when_their_batch_is_committed(
    oldest: float | None,
    planned: float | None,
    is_whole: bool,
    found: tuple[float | None, float | None],
) -> None:
    waiting = with_planned(Waiting(3, oldest), planned, is_whole=is_whole, at=900.0)

    assert (waiting.files, waiting.oldest, waiting.read_until) == (3, *found)


class JavaFiles:
    """A file source in the JVM, whose log has the times of files by its offset."""

    def __init__(self, log: Mapping[int, list[int]]) -> None:
        self.currentLogOffset = lambda: max(log, default=-1)
        self.metadataLog = SimpleNamespace(
            get=lambda number: SimpleNamespace(get=lambda: of(number))
        )

        def of(number: int) -> list[Any]:
            return [SimpleNamespace(timestamp=lambda at=at: at) for at in log[number]]

    def getClass(self) -> Any:
        return SimpleNamespace(
            getDeclaredField=lambda name: SimpleNamespace(
                setAccessible=lambda _: None, get=lambda java: getattr(java, name)
            )
        )


@pytest.mark.parametrize(
    ("log", "end", "since"),
    [
        pytest.param({0: [1_000], 1: [2_000]}, {"logOffset": 1}, math.inf, id="committed"),
        pytest.param({0: [1_000], 1: [7_000, 3_000]}, {"logOffset": 0}, 3.0, id="in_work"),
        pytest.param(
            {0: [1_000], 1: [9_000], 2: [4_000]}, '{"logOffset":0}', 4.0, id="two_offsets"
        ),
        pytest.param({0: [1_000]}, None, None, id="no_committed_batch_yet"),
        pytest.param({0: [1_000]}, {"orders": {"0": 1}}, None, id="another_offset"),
        pytest.param({0: [1_000], 3: [5_000]}, {"logOffset": 0}, None, id="a_compacted_entry"),
    ],
)
def test_the_log_of_the_source_tells_the_files_of_the_batch_in_work(
    log: dict[int, list[int]], end: Any, since: float | None
) -> None:
    assert planned_since(JavaFiles(log), end) == since


def test_a_batch_of_too_many_files_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_waiting, "_MOST_PLANNED", 1)

    assert planned_since(JavaFiles({0: [1], 1: [2]}), {"logOffset": 0}) == 0.002
    assert planned_since(JavaFiles({0: [1], 1: [2, 3]}), {"logOffset": 0}) is None


@pytest.mark.parametrize(
    ("end", "number"),
    [({"logOffset": 7}, 7), ('{"logOffset":7}', 7), ("7", None), (None, None), ("{", None)],
)
def test_the_offset_of_a_file_source_is_a_number(end: Any, number: int | None) -> None:
    assert log_offset(end) == number
