"""The list of what test files take: recorded by a run, and left out by another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import costs
from tests.conftest import REPOSITORY
from tests.costs import Recorder, printed, read_costs


def a_report(test: str, duration: float) -> pytest.TestReport:
    return pytest.TestReport(test, ("", 0, ""), {}, "passed", None, "call", duration=duration)


def test_a_run_records_what_its_files_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "RECORDED", tmp_path / "costs.txt")
    for seconds in (2.0, 3.0):
        recorder = Recorder()
        recorder.pytest_runtest_logreport(a_report("tests/test_a.py::test_1", seconds))
        recorder.pytest_runtest_logreport(a_report("tests/test_a.py::test_2[x]", 1.0))
        recorder.pytest_runtest_logreport(a_report("tests/test_b.py::test_1", 0.1))
        recorder.pytest_sessionfinish()

    assert read_costs(tmp_path / "costs.txt") == {"tests/test_a.py": 7.0}


def test_the_longest_file_comes_first() -> None:
    listed = printed({"b": 1.0, "a": 1.0, "c": 12.34, "cheap": 0.2})

    assert [line.split() for line in listed.splitlines()] == [
        ["12.3", "c"],
        ["1.0", "a"],
        ["1.0", "b"],
    ]


def test_a_run_skips_files_that_take_longer_than_it_allows() -> None:
    longest = max(
        (seconds, name)
        for name, seconds in read_costs().items()
        if name.startswith("tests/unit/faults/")
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.costs", "--collect-only", "-q"]
    done = subprocess.run(
        [
            *command,
            "--at-most",
            f"{longest[0] - 1}",
            "tests/unit/faults",
            "tests/unit/test_costs.py",
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "tests/unit/test_costs.py::" in done.stdout
    assert f"{longest[1]}::" not in done.stdout
