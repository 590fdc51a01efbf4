"""The testing kit itself, in a real Spark."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from airflow_streaming.testing import StreamTester, StreamTestError
from demo.events import drop
from tests.documents import snippets

JOB = Path(__file__).with_name("kit_job.py")


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    drop(tmp_path / "in", "1.txt", "one\n")
    return tmp_path / "in"


def test_a_running_script_is_fed_and_waited_for(
    stream_tester: StreamTester, inputs: Path, tmp_path: Path
) -> None:
    with stream_tester.start(JOB, "waits", inputs, checkpoint=tmp_path / "c") as live:
        assert live.process_all() == {"lines": 0}
        drop(inputs, "2.txt", "two\n")
        assert live.await_batch("lines", 1) == {"lines": 1}
        run = live.stop()

    assert run["lines"].error is None
    assert [row["value"] for row in run["lines"].rows or []] == ["one", "two"]
    assert run["lines"].input_rows == 2


def test_a_script_that_stops_spark_and_sets_things_leaves_nothing_behind(
    stream_tester: StreamTester, inputs: Path, tmp_path: Path
) -> None:
    first = stream_tester.run(JOB, "ends", inputs, checkpoint=tmp_path / "c")
    again = stream_tester.run(JOB, "ends", inputs, checkpoint=tmp_path / "c")

    assert first["lines"].rows == again["lines"].rows == [{"value": "one"}]
    assert stream_tester.call(JOB, "settings", "spark.sql.leaked") == ["unset"]


@pytest.mark.parametrize(("kind", "error"), [("raises", "KeyError"), ("exits", "RuntimeError")])
def test_what_a_script_raises_is_in_the_run_and_its_queries_are_stopped(
    kind: str, error: str, stream_tester: StreamTester, inputs: Path, tmp_path: Path
) -> None:
    run = stream_tester.run(JOB, kind, inputs, checkpoint=tmp_path / "c", check=False)

    assert run.error is not None
    assert run.error.kind == error
    with pytest.raises(StreamTestError):
        run.check()


def test_the_test_that_the_manual_shows_passes(stream_tester: StreamTester, tmp_path: Path) -> None:
    script, test = (one.source for one in snippets("docs/testing.md"))
    drop(tmp_path / "jobs", "paid_orders.py", script)
    drop(tmp_path, "test_paid_orders.py", test.replace("jobs/", f"{tmp_path}/jobs/"))

    shown = runpy.run_path(str(tmp_path / "test_paid_orders.py"))
    shown["test_paid_orders"](stream_tester, tmp_path)


def test_an_unreadable_input_says_spark_s_condition(
    stream_tester: StreamTester, tmp_path: Path
) -> None:
    with pytest.raises(StreamTestError) as caught:
        stream_tester.rows(tmp_path / "nothing")

    assert caught.value.condition == "PATH_NOT_FOUND"
