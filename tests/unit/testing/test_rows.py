from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.testing import StreamTestError, compare_rows, undo_last_commit
from airflow_streaming.testing.tester import QueryRun, StreamTester

ONE, TWO = {"a": 1, "b": "x"}, {"a": 2, "b": "y"}


@pytest.mark.parametrize(
    ("found", "expected", "lost", "doubled", "wrong"),
    [
        ([ONE, TWO], [TWO, ONE], 0, 0, 0),
        ([], [], 0, 0, 0),
        ([ONE], [ONE, TWO], 1, 0, 0),
        ([ONE, ONE], [ONE], 0, 1, 0),
        ([ONE, ONE], [ONE, ONE], 0, 0, 0),
        ([ONE], [ONE, ONE], 1, 0, 0),
        ([TWO], [ONE], 1, 0, 1),
        ([ONE, TWO, TWO], [ONE], 0, 0, 2),
    ],
)
def test_every_row_counts_and_how_often_it_is_there(
    found: list[dict[str, Any]],
    expected: list[dict[str, Any]],
    lost: int,
    doubled: int,
    wrong: int,
) -> None:
    difference = compare_rows(found, expected)

    assert (difference.lost, difference.doubled, difference.wrong) == (lost, doubled, wrong)
    assert (difference.found, difference.expected) == (len(found), len(expected))
    assert bool(difference) is bool(lost or doubled or wrong)


def test_columns_that_are_not_compared_may_differ() -> None:
    assert not compare_rows([{"a": 1, "b": 2}], [{"a": 1, "b": 3}], columns=["a"])


def test_the_newest_commit_is_taken_back_and_its_plan_stays(tmp_path: Path) -> None:
    for log in ("offsets", "commits"):
        (tmp_path / "q" / log).mkdir(parents=True)
        for number in (9, 10):
            (tmp_path / "q" / log / str(number)).write_text("v1")
            (tmp_path / "q" / log / f".{number}.crc").write_text("")

    assert undo_last_commit(tmp_path, "q") == 10
    assert {one.name for one in (tmp_path / "q" / "commits").iterdir()} == {"9", ".9.crc"}
    assert (tmp_path / "q" / "offsets" / "10").exists()


def test_without_a_commit_there_is_nothing_to_take_back(tmp_path: Path) -> None:
    with pytest.raises(StreamTestError):
        undo_last_commit(tmp_path, "q")


def test_figures_of_a_query_come_from_its_progress() -> None:
    state = {"numRowsDroppedByWatermark": 2, "numRowsTotal": 5}
    progress = [
        {"batchId": 0, "numInputRows": 3, "durationMs": {"addBatch": 1}, "stateOperators": [state]},
        {"batchId": 1, "numInputRows": 4, "durationMs": {}, "stateOperators": [state, state]},
    ]
    run = QueryRun(id="1", progress=progress, rows=None, error=None)

    assert run.batches == [0]
    assert (run.input_rows, run.late_rows, run.state_rows) == (7, 6, 10)


def test_a_python_without_spark_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named pyspark\nexit 1\n")
    python.chmod(0o700)

    with StreamTester(python) as tester, pytest.raises(StreamTestError, match="No module named"):
        tester.rows(tmp_path)


def test_a_spark_that_does_not_answer_is_killed(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o700)

    with StreamTester(python, patience=0.2) as tester, pytest.raises(StreamTestError):
        tester.rows(tmp_path)


def test_the_kit_is_imported_without_airflow_and_spark() -> None:
    import subprocess

    program = (
        "import json, sys, airflow_streaming.testing, airflow_streaming.testing.pytest_plugin\n"
        "print(json.dumps([n for n in ('airflow', 'pyspark') if n in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert json.loads(done.stdout) == []
