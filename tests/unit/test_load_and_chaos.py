from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.patience import until


@pytest.fixture(scope="module")
def dag() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "dags" / "load_and_chaos" / "load_and_chaos.py"))


@pytest.mark.parametrize("conf", [None, {}, {"spark.airflow_streaming.chaos": "no"}])
def test_a_stream_without_the_mark_is_refused(dag: dict[str, Any], conf: object) -> None:
    with pytest.raises(ValueError, match="orders"):
        dag["check_is_marked"]({"stream": "orders", "deployment": {"conf": conf}})


def test_a_marked_stream_is_let_through(dag: dict[str, Any]) -> None:
    conf = {"spark.airflow_streaming.chaos": "allowed"}

    dag["check_is_marked"]({"stream": "orders", "deployment": {"conf": conf}})


def arrived(folder: Path, minutes: dict[int, int]) -> list[Path]:
    files = []
    for minute, count in minutes.items():
        for number in range(count):
            file = folder / f"{minute}-{number}.json"
            file.write_text("{}")
            os.utime(file, (60 * minute + number, 60 * minute + number))
            files.append(file)
    return files


def test_the_plan_is_a_multiple_of_the_busiest_minute_and_ends(
    dag: dict[str, Any], tmp_path: Path
) -> None:
    files = arrived(tmp_path, {100: 2, 101: 3, 105: 1})

    moments = [moment for moment, _ in dag["plan"](files, 10, 2)]

    assert dag["busiest_minute"](files) == 3
    assert len(moments) == 3 * 10 * 2
    assert moments[0] == 0
    assert moments[-1] < 120


def test_copies_have_names_of_their_own(dag: dict[str, Any], tmp_path: Path) -> None:
    arrived(tmp_path, {100: 1})
    dag["load"].__globals__["time"] = Clock()

    assert dag["load"](tmp_path, 10, 1) == 10
    assert len([*tmp_path.glob("load-*.json")]) == 10


class Clock:
    """Time that passes only where it is slept."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


def test_a_driver_is_found_by_its_token_only(dag: dict[str, Any]) -> None:
    program = [sys.executable, "-c", "input()", "--token", "t-1"]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as process:
        found = until(lambda: dag["processes_of"]("t-1"), "the process")
        assert found == [process.pid]
        assert dag["processes_of"]("t-2") == []
        assert dag["processes_of"]("") == []
        process.kill()
