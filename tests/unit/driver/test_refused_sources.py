"""A source that Spark does not open, as plan mode records it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.jobs.refused_sources import listen_to_reader
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.plan import RefusedSource, SourcePlan


class Reader:
    """A reader with the signatures of pyspark's; it opens nothing."""

    def __init__(self) -> None:
        self._spark = SimpleNamespace(conf={"spark.sql.sources.default": "ORC"})

    def format(self, source: str) -> Reader:
        return self

    def option(self, key: str, value: Any) -> Reader:
        return self

    def options(self, **options: Any) -> Reader:
        return self

    def schema(self, schema: str) -> Reader:
        return self

    def load(self, path: str | None = None, format: str | None = None, **options: Any) -> None:
        raise ValueError("Refused.")

    def json(self, path: str, multiLine: bool | None = None) -> None:
        raise ValueError("Refused.")


KAFKA = SourcePlan(
    source="kafka",
    paths=("subscribe a,b",),
    options={"kafka.bootstrap.servers": "b:1", "endingoffsets": "latest"},
)


@pytest.mark.parametrize(
    ("read", "source"),
    [
        (
            lambda r: (
                r.format("kafka")
                .option("subscribe", "a,b")
                .options(endingOffsets="latest", **{"kafka.bootstrap.servers": "b:1"})
                .load()
            ),
            KAFKA,
        ),
        (
            lambda r: r.load(
                format="kafka",
                subscribe="a,b",
                endingOffsets="latest",
                **{"kafka.bootstrap.servers": "b:1"},
            ),
            KAFKA,
        ),
        (
            lambda r: r.schema("a int").option("maxFilesPerTrigger", 0).json("/in", multiLine=True),
            SourcePlan(
                source="file",
                format="json",
                paths=("/in",),
                schema=(Column(name="*", type="a int"),),
                options={"maxfilespertrigger": "0", "multiline": "true"},
            ),
        ),
        (
            lambda r: r.options(a=1, A=2).option("a", 3).load("/in"),
            SourcePlan(source="file", format="orc", paths=("/in",), options={"a": "3"}),
        ),
    ],
    ids=["options", "arguments of load", "files", "the session's format, one option in two cases"],
)
def test_a_source_that_spark_refuses_is_recorded_with_its_options(
    read: Any, source: SourcePlan
) -> None:
    found: list[RefusedSource] = []
    reader = type("Patched", (Reader,), dict(Reader.__dict__))
    listen_to_reader(reader, found.append, str)

    with pytest.raises(ValueError, match="Refused"):
        read(reader())

    assert found == [RefusedSource(source=source, why="Refused.")]


def test_a_secret_among_the_options_is_hidden() -> None:
    found: list[RefusedSource] = []
    reader = type("Patched", (Reader,), dict(Reader.__dict__))
    listen_to_reader(reader, found.append, str)

    with pytest.raises(ValueError, match="Refused"):
        reader().option("kafka.ssl.key.password", "hunter2").load(format="kafka")

    assert "hunter2" not in str(found)
