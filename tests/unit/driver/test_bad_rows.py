"""The row of a poison batch is looked up by the value that the error names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.driver.monitoring import bad_rows as module
from airflow_streaming.driver.monitoring.bad_rows import bad_rows, lines_with
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.monitoring.spark_query import QueryError
from tests.unit.driver.fakes import FakeQuery, make_tracked

JSON = ['{"k": 1, "v": "7"}', '{"k": 2, "v": "x7"}', '{"k": 3, "v": {"w": ["a", "x7"]}}', '{"k": 4']


@pytest.mark.parametrize(
    ("value", "lines", "expected"),
    [
        pytest.param("x7", JSON, [2, 3], id="fields of JSON at any depth"),
        pytest.param("7", JSON, [1], id="a part of another value is no row"),
        pytest.param("2", JSON, [2], id="a number"),
        pytest.param("k", JSON, [], id="a name is no value"),
        pytest.param("x, 7", ["k,v", '1,"x, 7"', "2,x"], [2], id="CSV"),
        pytest.param("x7", ["k,v", "1,ax7"], [], id="a part of a cell"),
        pytest.param("x7", ["", "x" * 200_000, "[" * 100_000 + "x7"], [], id="no rows"),
        pytest.param("x7", [], [], id="an empty file"),
    ],
)
def test_lines_are_found_by_a_field(value: str, lines: list[str], expected: list[int]) -> None:
    assert lines_with(value, lines) == expected


def test_rows_are_named_by_line_and_file(tmp_path: Path) -> None:
    (tmp_path / "a b.json").write_text("\n".join(JSON))
    url = f"file://{tmp_path}/a%20b.json"

    assert bad_rows("x7", [url, "file:///gone.json"]) == (f"line 2 of {url}", f"line 3 of {url}")


def test_no_more_than_three_rows_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x7\n" * 4)
    (tmp_path / "b.csv").write_text("x7\n" * 3)
    four, three = (f"file:{tmp_path}/{name}.csv" for name in "ab")

    assert bad_rows("x7", [four]) == (*(f"line {n} of {four}" for n in (1, 2, 3)), "and more")
    assert bad_rows("x7", [three]) == tuple(f"line {n} of {three}" for n in (1, 2, 3))


def test_the_search_is_bounded_and_stays_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("1\n2\nx7\n")
    url = f"file:{tmp_path}/a.csv"
    assert bad_rows("x7", [f"s3a://bucket{tmp_path}/a.csv", str(tmp_path / "a.csv")]) == ()
    monkeypatch.setattr(module, "MOST_BYTES", 5)
    assert bad_rows("x7", [url]) == ()
    monkeypatch.undo()
    assert bad_rows("x7", [url]) == (f"line 3 of {url}",)
    monkeypatch.setattr(module, "MOST_FILES", 1)
    assert bad_rows("x7", ["file:///gone.csv", url]) == ()


def failed(tmp_path: Path, value: str | None) -> QueryError:
    """Return the error of a query that failed in batch 1, which read the second file."""
    for batch in (0, 1):
        (tmp_path / f"{batch}.json").write_text("\n".join(JSON))
        for folder, text in (
            ("offsets", f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{batch}}}'),
            (
                "sources/0",
                "v1\n" + json.dumps({"path": f"file:{tmp_path}/{batch}.json", "batchId": batch}),
            ),
        ):
            (tmp_path / "checkpoint" / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / "checkpoint" / folder / str(batch)).write_text(text)
    (tmp_path / "checkpoint/commits").mkdir()
    (tmp_path / "checkpoint/commits/0").write_text("v1\n{}")
    fake, queries = FakeQuery(), Queries()
    queries.add(make_tracked(fake, folder=tmp_path / "checkpoint"))
    fake.fail(QueryError(message="No.", exception_class="ValueError", value=value))
    queries.poll()
    error = queries.all()[0].error
    assert error is not None
    return error


def test_a_failed_query_names_the_rows_of_its_batch(tmp_path: Path) -> None:
    error = failed(tmp_path, "x7")

    assert error.batch_id == 1
    assert error.rows == tuple(f"line {n} of file:{tmp_path}/1.json" for n in (2, 3))


def test_an_error_without_a_value_reads_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "bad_rows", None)

    assert failed(tmp_path, None).rows == ()
