"""The datasets of a stream, by the recorded plans of its queries."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.model.products.datasets import DatasetName, place_name, stream_datasets
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan, SourcePlan


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("/data/orders", ("file", "/data/orders")),
        ("file:///data/orders/", ("file", "/data/orders")),
        ("s3a://lake/orders/2026", ("s3://lake", "orders/2026")),
        ("s3://lake", ("s3://lake", "/")),
        ("gs://lake/orders", ("gs://lake", "orders")),
        ("hdfs://nn:8020/orders", ("hdfs://nn:8020", "/orders")),
        (
            "abfss://raw@acme.dfs.core.windows.net/orders",
            ("abfss://raw@acme.dfs.core.windows.net", "orders"),
        ),
    ],
)
def test_a_place_is_named_as_openlineage_names_it(place: str, name: tuple[str, str]) -> None:
    assert place_name(place) == DatasetName(*name)


def plan(sink: SinkPlan, *sources: SourcePlan, writes: tuple[SinkPlan, ...] = ()) -> QueryPlan:
    return QueryPlan(
        query="q",
        spark="4.3.0",
        output_mode="append",
        sink=sink,
        sources=sources,
        writes=writes,
    )


def kafka(*paths: str) -> SourcePlan:
    options = {"kafka.bootstrap.servers": "b1:9092, b2:9092"}
    return SourcePlan(source="kafka", paths=paths, options=options)


FILES = SourcePlan(source="file", format="json", paths=("/in/a", "/in/b"))
TOPIC = SinkPlan(sink="kafka", target="out", options={"kafka.bootstrap.servers": "b1:9092"})


@pytest.mark.parametrize(
    ("plans", "inputs", "outputs"),
    [
        ([], [], []),
        (
            [plan(SinkPlan(sink="file", format="parquet", target="s3a://lake/out"), FILES)],
            [("file", "/in/a"), ("file", "/in/b")],
            [("s3://lake", "out")],
        ),
        (
            [
                plan(TOPIC, kafka("subscribe orders, clicks")),
                plan(TOPIC, kafka("subscribe orders")),
            ],
            [("kafka://b1:9092", "clicks"), ("kafka://b1:9092", "orders")],
            [("kafka://b1:9092", "out")],
        ),
        ([plan(TOPIC, kafka('assign {"orders":[0,1]}'))], [("kafka://b1:9092", "orders")], None),
        ([plan(TOPIC, kafka("assign {broken"))], [], None),
        ([plan(TOPIC, kafka("subscribepattern ord.*"))], [], None),
        ([plan(SinkPlan(sink="foreachbatch", target="write"), FILES)], None, []),
        ([plan(SinkPlan(sink="foreachbatch"), writes=(TOPIC,))], [], [("kafka://b1:9092", "out")]),
        ([plan(SinkPlan(sink="memory"), SourcePlan(source="socket"))], [], []),
    ],
    ids=[
        "none",
        "files",
        "topics",
        "assigned",
        "broken",
        "pattern",
        "function",
        "seen to write",
        "no name",
    ],
)
def test_datasets_are_those_of_all_plans_once(plans: Any, inputs: Any, outputs: Any) -> None:
    found = stream_datasets(plans)

    assert inputs is None or list(found.inputs) == [DatasetName(*one) for one in inputs]
    assert outputs is None or list(found.outputs) == [DatasetName(*one) for one in outputs]
