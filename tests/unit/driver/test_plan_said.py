from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.driver.plan.writer_settings import WriterSettings, listen, said_on


def make_writer() -> Any:
    """A writer with pyspark's methods, whose class nobody has patched."""

    class Writer:
        def format(self, source: str) -> Writer:
            return self

        def outputMode(self, outputMode: str) -> Writer:
            return self

        def partitionBy(self, *cols: Any) -> Writer:
            return self

        def trigger(self, *, processingTime: str | None = None, once: bool | None = None) -> Writer:
            if once and processingTime:
                raise ValueError("Multiple triggers not allowed.")
            return self

        def foreachBatch(self, func: Any) -> Writer:
            return self

        def name(self, sinkName: str) -> Writer:
            return self

        def option(self, key: str, value: Any) -> Writer:
            return self

        def options(self, **options: Any) -> Writer:
            return self

    listen(Writer)
    return Writer()


def write(batch: Any, number: int) -> None:
    """Stand for a function of the script."""


def test_everything_that_is_said_on_a_writer_is_remembered() -> None:
    writer = make_writer()
    writer.format("parquet").outputMode("append").partitionBy(["a", "b"])
    writer.trigger(processingTime="5 seconds")
    writer.option("Path", "/out").options(someFlag=True)

    assert said_on(writer) == WriterSettings(
        format="parquet",
        output_mode="append",
        partitioned_by=("a", "b"),
        processing_trigger="5 seconds",
        options={"path": "/out", "someflag": "true"},
    )


def test_the_name_of_a_sink_is_remembered_where_a_writer_takes_one() -> None:
    writer = make_writer()
    writer.name("audit")
    assert (said_on(writer).sink_name, said_on(writer).name) == ("audit", "")


def test_what_pyspark_refuses_was_not_said() -> None:
    writer = make_writer()
    writer.trigger(once=True)
    with pytest.raises(ValueError, match="Multiple"):
        writer.trigger(once=True, processingTime="1 second")
    assert said_on(writer).processing_trigger == "once"


def test_a_function_is_told_by_its_name() -> None:
    writer = make_writer()
    writer.foreachBatch(func=write)
    assert (said_on(writer).format, said_on(writer).function) == ("foreachbatch", "write")


def test_start_says_the_rest_and_has_the_last_word() -> None:
    said = WriterSettings(
        format="json", output_mode="append", partitioned_by=("a",), options={"path": "/a"}
    )
    given = {"path": "/b", "format": "orc", "partitionBy": "c", "options": {"Extra": 1}}
    begun = said.begun(given)
    assert (begun.path, begun.format, begun.partitioned_by) == ("/b", "orc", ("c",))
    assert begun.options == {"path": "/a", "extra": "1"}
    assert said.begun({}).partitioned_by == ("a",)
    assert said.begun({"tableName": "t"}).table == "t"
