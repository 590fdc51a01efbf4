"""A rehearsal of queries that write to Kafka with the official connector: their sinks are checked, and nothing is written."""

from __future__ import annotations

from pathlib import Path

from airflow_streaming.checkpoints.copies import OfCheckpoints
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.model.jobs.rehearsal import Bounds
from airflow_streaming.spark_jobs.rehearsal import rehearse
from airflow_streaming.spark_jobs.runner import Program
from tests.integration.servers.broker import consume, create_topic, kafka_broker
from tests.integration.servers.connector import official_jars
from tests.patience import PATIENCE

SCRIPT = b"""
import contextlib
import sys

from pyspark.sql import SparkSession

source, servers = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("k STRING, v BIGINT").json(source)
for name, column, options in (
    ("good", "k AS value", {"topic": "out"}),
    ("missing", "k AS value", {"topic": "nowhere"}),
    ("untold", "k AS value", {}),
    ("number", "v AS value", {"topic": "out"}),
):
    writer = rows.selectExpr(column).writeStream.queryName(name).format("kafka").options(**options)
    with contextlib.suppress(Exception):
        writer.option("kafka.bootstrap.servers", servers).start()
"""


def test_the_sink_of_each_query_is_checked_and_nothing_is_written(
    tmp_path: Path, spark_4_3: Path
) -> None:
    jars = official_jars()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": "a", "v": 1}\n')
    with kafka_broker(tmp_path / "kafka") as broker:
        create_topic(broker, "out", 1)
        program = Program(
            application="/app/job.py",
            source=SCRIPT,
            arguments=(str(tmp_path / "in"), broker),
            jars=tuple(jars.split(",")),
        )

        found = rehearse(
            OfCheckpoints(checkpoints={}),
            program,
            resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)}),
            bounds=Bounds(batches=1, seconds=PATIENCE),
        )

        assert consume(broker, "out", 1, within=2) == []

    told = {(f.query, f.rule): f for f in found.findings if f.rule != "rehearsal.new_query"}
    assert {key: finding.severity for key, finding in told.items()} == {
        ("missing", "rehearsal.topic_missing"): GateDecision.UNKNOWN,
        ("untold", "rehearsal.query_failed"): GateDecision.NOT_ALLOWED,
        ("number", "rehearsal.query_failed"): GateDecision.NOT_ALLOWED,
    }
    assert "topic option required" in told["untold", "rehearsal.query_failed"].message
    assert "value must be a(n) string or binary" in told["number", "rehearsal.query_failed"].message
