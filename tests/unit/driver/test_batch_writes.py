"""What a function of foreachBatch writes with Spark's own writers is learned, and refused where it is live."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.output_places.batch_writes import BatchWrites
from airflow_streaming.driver.output_places.live_outputs import LiveOutputs
from airflow_streaming.driver.plan.writer_settings import said_on
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.spark.plan import SinkPlan
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.test_live_outputs import BLUE, GREEN, store, wrote

__all__ = ["store"]
LIVE = SinkPlan(sink="jdbc", options={"url": "jdbc:pg://h/db", "dbtable": "shop.orders"})


class Session:
    class conf:
        get = staticmethod(lambda key, default: default)


def classes(done: list[str]) -> tuple[type, type]:
    """Return a writer and a frame of Spark's own shape, which note what was really written."""

    class Writer:
        _spark = Session()

        def format(self, source: str) -> Writer:
            return self

        def option(self, key: str, value: Any) -> Writer:
            return self

        def save(self, path: str | None = None, format: str | None = None, **options: Any) -> None:
            done.append("save")

        def jdbc(self, url: str, table: str, mode: str | None = None) -> None:
            done.append("jdbc")

        def parquet(self, path: str, mode: str | None = None) -> None:
            done.append("parquet")

        def saveAsTable(self, name: str, format: str | None = None) -> None:
            done.append("saveAsTable")

    class Frame:
        def writeTo(self, table: str) -> str:
            done.append("writeTo")
            return table

    return Writer, Frame


@pytest.fixture
def kept() -> list[tuple[str, SinkPlan]]:
    return []


def patched(
    store: LocalStore, lane: str, kept: list[tuple[str, SinkPlan]]
) -> tuple[BatchWrites, Any, Any, list[str], ShutdownState]:
    done: list[str] = []
    ending, outputs = ShutdownState(), LiveOutputs(store, lane)
    outputs.learn()
    writes = BatchWrites(outputs, lambda query, sink: kept.append((query, sink)), ending)
    writer, frame = classes(done)
    writes.patch(writer, frame)
    return writes, writer, frame, done, ending


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda w, f: w().jdbc("jdbc:x", "t"), SinkPlan(sink="jdbc", options={"url": "jdbc:x", "dbtable": "t"})),
        (lambda w, f: w().format("jdbc").option("URL", "jdbc:x").option("dbTable", "t").save(),
         SinkPlan(sink="jdbc", options={"url": "jdbc:x", "dbtable": "t"})),
        (lambda w, f: w().parquet("/out"), SinkPlan(sink="file", format="parquet", target="/out")),
        (lambda w, f: w().format("delta").save("/lake/t"), SinkPlan(sink="delta", target="/lake/t")),
        (lambda w, f: w().saveAsTable("shop.t"), SinkPlan(sink="table", format="parquet", target="shop.t")),
        (lambda w, f: f().writeTo("lake.shop.t"), SinkPlan(sink="table", target="lake.shop.t")),
    ],
)  # fmt: skip
def test_each_way_of_writing_names_its_place(
    write: Any, expected: SinkPlan, store: LocalStore, kept: list[tuple[str, SinkPlan]]
) -> None:
    writes, writer, frame, done, _ = patched(store, BLUE, kept)

    with writes.inside("q"):
        write(writer, frame)

    assert kept == [("q", expected)]
    assert len(done) == 1


def test_a_write_outside_of_a_function_is_the_scripts_own(
    store: LocalStore, kept: list[tuple[str, SinkPlan]]
) -> None:
    _, writer, _, done, _ = patched(store, BLUE, kept)

    writer().parquet("/out")

    assert kept == []
    assert done == ["parquet"]


def test_green_s_function_is_refused_before_it_writes_a_live_table(
    store: LocalStore, kept: list[tuple[str, SinkPlan]]
) -> None:
    wrote(store, BLUE, 1, "revenue", LIVE)
    writes, writer, _, done, ending = patched(store, GREEN, kept)

    with writes.inside("renamed"), pytest.raises(DriverRefusal, match=r"dbtable=orders"):
        writer().jdbc("jdbc:pg://h/db", "ORDERS")

    assert done == []
    assert ending.begun.is_set(), "a function that swallows the refusal must not go on"


def test_green_s_function_writes_a_table_of_its_own(
    store: LocalStore, kept: list[tuple[str, SinkPlan]]
) -> None:
    wrote(store, BLUE, 1, "revenue", LIVE)
    writes, writer, _, done, _ = patched(store, GREEN, kept)

    with writes.inside("renamed"):
        writer().jdbc("jdbc:pg://h/db", "orders_green")

    assert done == ["jdbc"]


def test_a_thread_of_the_function_counts_for_the_only_query(
    store: LocalStore, kept: list[tuple[str, SinkPlan]]
) -> None:
    writes, writer, _, _, _ = patched(store, BLUE, kept)

    with writes.inside("q"):
        thread = threading.Thread(target=lambda: writer().parquet("/out"))
        thread.start()
        thread.join()

    assert [query for query, _ in kept] == ["q"]


def test_a_writer_that_cannot_be_read_writes_as_always(
    store: LocalStore, kept: list[tuple[str, SinkPlan]]
) -> None:
    writes, writer, _, done, _ = patched(store, GREEN, kept)
    writer._spark = None

    with writes.inside("q"):
        writer().save("/out")

    assert done == ["save"]
    assert kept == []
    assert said_on(writer()).format == ""
