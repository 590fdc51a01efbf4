"""Two sinks are compared by the place that they write, however it is spelled."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.model.spark.plan import SinkPlan
from airflow_streaming.model.spark.sink_place import Shared, keeps_nothing, place_of, shared

SAME, APART, UNKNOWN = Shared.SAME, Shared.APART, Shared.UNKNOWN


def files(target: str) -> SinkPlan:
    return SinkPlan(sink="file", format="parquet", target=target)


def linked(target: str, real_path: str) -> SinkPlan:
    return SinkPlan(sink="file", format="parquet", target=target, real_path=real_path)


def topic(name: str, servers: str = "a:9092,b:9092") -> SinkPlan:
    return SinkPlan(sink="kafka", target=name, options={"kafka.bootstrap.servers": servers})


def table(name: str) -> SinkPlan:
    return SinkPlan(sink="table", format="iceberg", target=name)


def other(sink: str = "org.acme.Sink", target: str = "", **options: Any) -> SinkPlan:
    return SinkPlan(sink=sink, target=target, options=options)


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (files("/out"), files("/out/"), SAME),
        (files("/out"), files("file:/out"), SAME),
        (files("/out/day"), files("/out"), SAME),
        (files("/out"), files("/out2"), APART),
        (files("s3://b/x"), files("s3a://b/x"), SAME),
        (files("s3://b/x"), files("s3://c/x"), APART),
        (files("/lake/t"), other("delta", "/lake/t"), SAME),
        (topic("t"), topic("t"), SAME),
        (topic("t"), topic("t", "B:9092"), SAME),
        (topic("t"), topic("t", " b:9092 , c:9092"), SAME),
        (topic("t"), topic("t", "z:9092"), UNKNOWN),
        (topic("t"), topic("t.green"), APART),
        (topic("t"), topic("t.green", "z:9092"), APART),
        (topic("t"), topic(""), UNKNOWN),
        (topic(""), topic("", "z:9092"), UNKNOWN),
        (topic(""), files("/t"), APART),
        (topic("t"), files("/t"), APART),
        (table("orders"), table("spark_catalog.default.orders"), SAME),
        (table("`Shop`.orders"), table("lake.shop.orders"), SAME),
        (table("shop.orders"), table("other.orders"), APART),
        (table("orders"), table("myorders"), APART),
        (table("orders"), files("/warehouse/orders"), UNKNOWN),
        (table("orders"), topic("orders"), APART),
        (other(table="t", url="jdbc:x"), other(table="t", url="jdbc:x", batchsize="7"), SAME),
        (other(table="t"), other(table="u"), APART),
        (other("a", table="t"), other("b", table="t"), UNKNOWN),
        (other("a", table="t"), other("b", table="u"), APART),
        (other(target="t"), other(target="t"), SAME),
        (other(folder="/data/t"), other(folder="/data/t/"), SAME),
        (other(url="https://H/x"), other(url="https://h/x/", retries="7"), SAME),
        (other(table="t"), other(table="t", url="jdbc:x"), UNKNOWN),
        (other(table="t", url="jdbc:y"), other(table="t", url="jdbc:x"), APART),
        (other(topic="t"), topic("t"), UNKNOWN),
        (other(topic="u"), topic("t"), APART),
        (other("iceberg", "shop.orders"), table("lake.shop.orders"), SAME),
        (other("iceberg", "shop.orders"), table("shop.refunds"), APART),
        (other("delta", "orders"), table("orders"), SAME),
        (table("orders"), other("org.acme.Sink", dbtable="shop.orders"), UNKNOWN),
        (files("/out"), files("/a/../out/."), SAME),
        (files("out"), files("./out/"), SAME),
        (files("out"), files("/work/out"), UNKNOWN),
        (files("out"), files("/out2"), APART),
        (files("out"), files("other"), APART),
        (files("/out"), files("hdfs://nn/out"), UNKNOWN),
        (files("/out"), files("file:///out"), SAME),
        (files("hdfs://nn:8020/out"), files("hdfs:///out/"), UNKNOWN),
        (files("hdfs://nn:8020/out"), files("hdfs:///out2/"), APART),
        (files("abfs://c@a/out"), files("abfss://c@a/out"), SAME),
        (linked("/link", "/data/out"), files("/data/out"), SAME),
        (linked("/link", "/data/out"), files("/link"), APART),
    ],
)
def test_two_sinks_are_compared_by_their_place(
    one: SinkPlan, two: SinkPlan, expected: Shared
) -> None:
    first, second = place_of(one), place_of(two)

    assert first is not None
    assert second is not None
    assert shared(first, second) is expected
    assert shared(second, first) is expected


@pytest.mark.parametrize(
    "sink",
    [
        SinkPlan(sink="foreachbatch", target="write"),
        SinkPlan(sink="foreach", target="write"),
        table(""),
        other(),
        other(batchsize="7"),
    ],
)
def test_a_sink_that_names_no_place_has_none(sink: SinkPlan) -> None:
    assert place_of(sink) is None
    assert not keeps_nothing(sink)


@pytest.mark.parametrize("sink", ["console", "memory", "noop"])
def test_a_sink_that_keeps_nothing_has_no_place(sink: str) -> None:
    assert keeps_nothing(SinkPlan(sink=sink, target="q"))
    assert place_of(SinkPlan(sink=sink, target="q")) is None


def test_a_message_names_a_path_as_it_is_and_others_with_their_system() -> None:
    assert str(place_of(files("/out"))) == "/out"
    assert str(place_of(topic("t"))) == "kafka t"
    assert str(place_of(topic(""))) == "kafka, the topics of the column topic"
