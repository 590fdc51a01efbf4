"""Whatever sink green has, and however it spells the place: it never writes a live place in silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.judging.outputs import OutputFolders, judge_outputs
from airflow_streaming.driver.output_places.live_outputs import LiveOutputs
from airflow_streaming.driver.output_places.sink_target import resolved
from airflow_streaming.driver.plan.reading import sink_of
from airflow_streaming.driver.plan.writer_settings import WriterSettings
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from airflow_streaming.model.spark.sink_place import place_of
from airflow_streaming.model.storage import LocalStore
from tests.unit.gates.change import builders as b
from tests.unit.home.make import make_epoch

FOLDERS = OutputFolders(blue="/home/s/output/000001", green="/home/s.green/output/000001")
SERVERS = "kafka.bootstrap.servers"


class Ends(Enum):
    """How an attack ends."""

    REFUSED = "the preflight refuses, and so does the driver"
    ASKED = "the preflight names what it cannot see"
    HARMLESS = "nothing is kept"
    APART = "two places"


def sink(format: str, path: str = "", table: str = "", **options: Any) -> SinkPlan:
    """Return a sink as the driver learns it from a script; ``_`` stands for a dot in an option."""
    told = {key.replace("_", "."): value for key, value in options.items()}
    said = WriterSettings(format=format, path=path, table=table).with_options(told)
    return sink_of(said, "parquet")


def kafka(**options: str) -> SinkPlan:
    return sink("kafka", **{"kafka_bootstrap_servers": "a:9092,b:9092", **options})


def by_row(*topics: str, **options: str) -> SinkPlan:
    """Return a Kafka sink whose column ``topic`` has some literals, or any text."""
    target = topics[0] if len(topics) == 1 else ""
    return replace(kafka(**options), target=target, topics=topics)


def jdbc(**options: str) -> SinkPlan:
    return sink("jdbc", **options)


CODE = replace(sink("parquet"), sink="foreachbatch", target="write")
PG = "jdbc:postgresql://h/shop"
REFUSED, ASKED, HARMLESS, APART = Ends.REFUSED, Ends.ASKED, Ends.HARMLESS, Ends.APART


@pytest.mark.parametrize(
    ("blue", "green", "ends"),
    [
        pytest.param(sink("parquet", "/lake/o"), sink("parquet", "/lake/o/"), REFUSED, id="slash"),
        pytest.param(sink("json", "/lake/o"), sink("json", "file:///lake/o"), REFUSED, id="file://"),
        pytest.param(sink("csv", "/lake/o"), sink("csv", "file:/lake/o"), REFUSED, id="file:"),
        pytest.param(sink("orc", "/lake/o"), sink("", PATH="/lake/o"), REFUSED, id="option PATH"),
        pytest.param(sink("text", "/lake/o"), sink("text", "/lake/x/../o"), REFUSED, id="dots"),
        pytest.param(sink("avro", "s3://b/o"), sink("avro", "s3a://b/o/"), REFUSED, id="s3a://"),
        pytest.param(sink("parquet", "/lake"), sink("parquet", "/lake/new"), REFUSED, id="inside"),
        pytest.param(sink("parquet", "o"), sink("parquet", "./o"), REFUSED, id="relative"),
        pytest.param(sink("parquet", "o"), sink("parquet", "/work/o"), ASKED, id="half relative"),
        pytest.param(sink("delta", "/lake/o"), sink("delta", path="/lake/o/"), REFUSED, id="delta"),
        pytest.param(sink("delta", "/lake/o"), sink("", table="shop.o"), ASKED, id="delta's table"),
        pytest.param(
            sink("iceberg", table="shop.o"), sink("iceberg", "lake.shop.o"), REFUSED, id="iceberg"
        ),
        pytest.param(
            sink("iceberg", "shop.o"), sink("iceberg", PATH="Shop.O"), REFUSED, id="iceberg PATH"
        ),
        pytest.param(sink("", table="o"), sink("", table="default.`o`"), REFUSED, id="table"),
        pytest.param(kafka(topic="o"), kafka(TOPIC="o"), REFUSED, id="topic"),
        pytest.param(
            kafka(topic="o"), kafka(topic="o", KAFKA_Bootstrap_Servers="B:9092"), REFUSED, id="broker"
        ),
        pytest.param(
            kafka(topic="o"), kafka(topic="o", kafka_bootstrap_servers="z:9"), ASKED, id="other name"
        ),
        pytest.param(kafka(topic="o"), kafka(), ASKED, id="topic column"),
        pytest.param(kafka(), kafka(topic="o"), ASKED, id="blue's topic column"),
        pytest.param(kafka(topic="o"), by_row("o"), REFUSED, id="literal topic"),
        pytest.param(kafka(topic="o"), by_row("n", "o"), REFUSED, id="one of the literals"),
        pytest.param(by_row("n", "o"), kafka(topic="o"), REFUSED, id="one of blue's literals"),
        pytest.param(by_row("n", "o"), by_row("m", "p"), APART, id="other literals"),
        pytest.param(by_row("n", "o"), by_row(), ASKED, id="literals to any topic"),
        pytest.param(
            by_row("n", "o"), by_row("m", "o", kafka_bootstrap_servers="z:9"), ASKED, id="literals, other name"
        ),
        pytest.param(by_row("n", "o"), sink("acme", topic="o"), ASKED, id="literals, python Kafka sink"),
        pytest.param(sink("parquet", "/lake/o"), kafka(), ASKED, id="topic column beside files"),
        pytest.param(
            sink("", table="shop.o"), sink("iceberg", "/lake/o"), ASKED, id="table's folder"
        ),
        pytest.param(CODE, jdbc(url=PG, dbtable="o"), ASKED, id="jdbc beside foreachBatch"),
        pytest.param(CODE, CODE, ASKED, id="foreachBatch"),
        pytest.param(kafka(topic="o"), CODE, ASKED, id="to foreachBatch"),
        pytest.param(CODE, kafka(topic="o"), ASKED, id="from foreachBatch"),
        pytest.param(
            replace(CODE, sink="foreach"), replace(CODE, sink="foreach"), ASKED, id="foreach"
        ),
        pytest.param(
            jdbc(url=PG, dbtable="shop.o"), jdbc(URL=PG, dbTable="O", user="x"), REFUSED, id="jdbc"
        ),
        pytest.param(
            sink("acme", topic="o", servers="a:1"),
            sink("acme", Topic="o", servers="b:1"),
            REFUSED,
            id="python sink's topic",
        ),
        pytest.param(
            sink("acme", folder="/x"), sink("acme", folder="/x/"), REFUSED, id="python sink's path"
        ),
        pytest.param(sink("acme"), sink("acme"), ASKED, id="python sink without options"),
        pytest.param(kafka(topic="o"), sink("acme", topic="o"), ASKED, id="python Kafka sink"),
        pytest.param(sink("memory"), sink("memory"), HARMLESS, id="memory"),
        pytest.param(sink("console"), sink("console"), HARMLESS, id="console"),
        pytest.param(sink("noop"), sink("noop"), HARMLESS, id="noop"),
    ],
)  # fmt: skip
def test_green_with_a_renamed_query_and_another_spelling(
    blue: SinkPlan, green: SinkPlan, ends: Ends, tmp_path: Path
) -> None:
    found = [
        one.rule for one in judge_outputs([plan("renamed", green)], [plan("q", blue)], {}, FOLDERS)
    ]
    refused = is_refused(tmp_path, blue, green)

    assert (found, refused) == {
        REFUSED: (["cutover.output_shared"], True),
        ASKED: (["cutover.output_unseen"], False),
        HARMLESS: ([], False),
        APART: ([], False),
    }[ends]


def test_a_sink_with_a_topic_for_each_row_is_reported_also_where_no_other_sink_is_kafka() -> None:
    (found,) = judge_outputs([plan("q", kafka())], [], {"files": []}, FOLDERS)

    assert found.rule == "cutover.output_unseen"
    assert "column topic" in found.message
    assert found.severity is GateDecision.ALLOWED_WITH_CONSEQUENCE


def test_a_finding_names_the_writers_that_can_have_the_topics_of_the_rows() -> None:
    blue = [plan("orders", kafka(topic="o")), plan("files", sink("parquet", "/lake/o"))]

    (found,) = judge_outputs([plan("q", kafka())], blue, {"shop": [blue[0]], "lost": None}, FOLDERS)

    assert found.old == (
        "query orders: kafka o; streams whose sinks can be the same place: shop, lost"
    )


def test_a_link_to_a_live_folder_is_the_folder(tmp_path: Path) -> None:
    real, link = tmp_path / "orders", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    blue, green = (
        resolved(sink("parquet", str(path / "day")), None, "file:///") for path in (real, link)
    )

    found = judge_outputs([plan("renamed", green)], [plan("q", blue)], {}, FOLDERS)

    assert [one.rule for one in found] == ["cutover.output_shared"]
    assert is_refused(tmp_path, blue, green)


@pytest.mark.parametrize("target", ["/lake/o", "hdfs://nn/lake/o"])
def test_a_path_without_a_scheme_is_one_of_the_default_file_system(target: str) -> None:
    blue, green = sink("parquet", "hdfs://nn/lake/o"), sink("parquet", target)

    found = resolved(green, None, "hdfs://nn"), resolved(blue, None, "file:///")

    assert [place_of(one) for one in found] == [place_of(blue)] * 2


def plan(query: str, sink: SinkPlan) -> QueryPlan:
    return replace(b.a_stateless(), query=query, sink=sink)


def is_refused(home: Path, blue: SinkPlan, green: SinkPlan) -> bool:
    """Tell whether the driver of lane green refuses a place that lane blue writes."""
    store, layout = LocalStore(str(home)), Layout("s")
    records: Mapping[str, bytes] = {
        layout.place(Epoch, number=1): make_epoch(1, stream="s").to_bytes(),
        layout.place(QueryPlan, epoch=1, query="q"): layout.bytes_of(plan("q", blue)),
    }
    for path, data in records.items():
        store.create(path, data)
    try:
        LiveOutputs(store, "s.green").check("renamed", place_of(green))
    except DriverRefusal:
        return True
    return False
