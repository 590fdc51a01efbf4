"""What is asked of a Spark that moves a view, and what its answers mean."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.pointers.file import PointerFile
from airflow_streaming.changes.pointers.port import CallablePointer
from airflow_streaming.changes.pointers.spark import SparkTable, SparkView, with_runtimes
from airflow_streaming.exceptions import PointerFailed, PointerRefused, SpecError
from airflow_streaming.launch import runtime
from airflow_streaming.model.jobs.pointing import CatalogAnswer, CatalogOrder
from airflow_streaming.model.products.live_output import LiveOutput
from airflow_streaming.spark_jobs import runner
from airflow_streaming.spark_jobs.runner import LOG, Task

BLUE = LiveOutput(stream="orders", lane="orders", deployment=2, output="s3://lake/blue")
GREEN = LiveOutput(
    stream="orders", lane="orders.green", deployment=1, output="/lake/green", number=1
)


class FakeSpark:
    """A Spark that answers without being one."""

    def __init__(self, answer: CatalogAnswer | None) -> None:
        self.answer = answer
        self.orders: list[CatalogOrder] = []
        self.conf: dict[str, Any] = {}

    @contextlib.contextmanager
    def started(
        self, task: Task, _runtime: object, program: Any, scratch: Path
    ) -> Iterator[subprocess.Popen[bytes]]:
        assert isinstance(task.order, CatalogOrder)
        self.orders.append(task.order)
        self.conf = dict(program.conf)
        (scratch / LOG).write_text("ERROR no metastore\n")
        if self.answer is not None:
            Path(task.order.answer).write_bytes(self.answer.to_bytes())
        with subprocess.Popen(["sleep", "0" if self.answer else "60"]) as process:
            yield process
            process.kill()


def fake(monkeypatch: pytest.MonkeyPatch, answer: CatalogAnswer | None) -> FakeSpark:
    fake = FakeSpark(answer)
    monkeypatch.setattr(runner, "started", fake.started)
    monkeypatch.setattr(runtime, "resolve_runtime", lambda name, _known: name)
    return fake


def test_a_view_is_asked_to_show_green_and_knows_the_way_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = fake(monkeypatch, CatalogAnswer())
    view = SparkView(view="lake.orders", runtime="/opt/spark")
    view.move(GREEN, BLUE)
    view.undo(GREEN, BLUE)
    move, undo = asked.orders
    assert move.name == "`lake`.`orders`"
    assert (move.wanted.lane, move.wanted.number, move.wanted.undone) == ("orders.green", 1, False)
    assert (undo.wanted.lane, undo.wanted.number, undo.wanted.undone) == ("orders", 1, True)
    assert move.bodies == undo.bodies
    assert move.bodies == {
        "/lake/green": "SELECT * FROM parquet.`file:///lake/green`",
        "s3://lake/blue": "SELECT * FROM parquet.`s3a://lake/blue`",
    }
    assert asked.conf == {"spark.sql.catalogImplementation": "hive"}


def test_a_table_is_asked_to_lie_where_green_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fake(monkeypatch, CatalogAnswer())
    table = SparkTable(table="orders", runtime="/opt/spark")
    table.move(GREEN, BLUE)
    table.undo(GREEN, BLUE)
    assert [order.bodies[order.wanted.output] for order in asked.orders] == [
        "file:///lake/green",
        "s3a://lake/blue",
    ]


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        pytest.param(CatalogAnswer(refused="Not ours."), PointerRefused, "^Not ours", id="refused"),
        pytest.param(
            CatalogAnswer(failed="no metastore"),
            PointerFailed,
            "The view orders could not be moved: no metastore",
            id="failed",
        ),
        pytest.param(
            None, PointerFailed, "not moved.* within 0.2 s: ERROR no metastore", id="no answer"
        ),
    ],
)
def test_an_answer_says_whether_to_try_again(
    monkeypatch: pytest.MonkeyPatch,
    answer: CatalogAnswer | None,
    error: type[Exception],
    says: str,
) -> None:
    fake(monkeypatch, answer)
    view = SparkView(view="orders", runtime="/opt/spark", timeout=timedelta(seconds=0.2))
    with pytest.raises(error, match=says):
        view.move(GREEN, BLUE)


@pytest.mark.parametrize(
    "name", ["", "a.b.c.d", "orders; DROP TABLE x", "`orders`", "1st", "a-b", "a-b.c", "a.b-c.d"]
)
def test_what_is_no_name_is_refused_in_the_dag(name: str) -> None:
    with pytest.raises(SpecError, match="is not the name of a view"):
        SparkView(view=name, runtime="/opt/spark")
    with pytest.raises(SpecError, match="is not the name of a table"):
        SparkTable(table=name, runtime="/opt/spark")


@pytest.mark.parametrize(
    "name", ["orders", "lake.orders", "prod.lake.orders", "prod-cat.lake.orders"]
)
def test_what_is_a_name_is_taken(name: str) -> None:
    assert SparkView(view=name, runtime="/opt/spark").view == name
    assert SparkTable(table=name, runtime="/opt/spark").table == name


def test_a_task_gives_the_runtimes_to_those_that_need_them() -> None:
    runtimes = {"spark-4.3": "/opt/spark-4.3"}
    function = CallablePointer(
        name="router", forward=lambda _to, _before: None, backward=lambda _to, _before: None
    )
    pointers = [
        SparkView(view="lake.orders", runtime="spark-4.3"),
        PointerFile(uri="/lake/live.json"),
        function,
    ]
    found = with_runtimes(pointers, runtimes)
    assert list(found) == ["lake.orders", "live.json", "router"]
    view = found["lake.orders"]
    assert isinstance(view, SparkView)
    assert view.runtimes == runtimes
    assert found["router"] is function


def test_without_the_runtime_nothing_is_moved() -> None:
    with pytest.raises(PointerFailed, match=r"The view orders could not be moved: .*spark-4\.3"):
        SparkView(view="orders", runtime="spark-4.3").move(GREEN, BLUE)
