"""Plan mode and a rehearsal in one real JVM: the second job finds nothing of the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.checkpoints.copies import OfCheckpoints
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.model.jobs.rehearsal import Bounds
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.rehearsal import rehearse
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.spark_jobs.shared_spark import NewSpark, SharedSpark
from tests.patience import PATIENCE

SCRIPT = """
import os, sys
from pyspark.sql import SparkSession, functions as F

def told():
    ours = ("AIRFLOW_STREAMING_PLAN", "AIRFLOW_STREAMING_REHEARSAL")
    return ",".join(name for name in ours if name in os.environ)

spark = SparkSession.builder.getOrCreate()
assert spark.conf.get("spark.left.behind", "no") == "no"
spark.conf.set("spark.left.behind", "yes")
spark.range(3).createTempView("lookup")        # fails where it exists
spark.range(3).createGlobalTempView("lookup")
spark.conf.set("spark.sql.shuffle.partitions", "2")
seen = F.udf(lambda _: told(), "string")
rows = spark.readStream.schema("v long").json(sys.argv[1])
counts = rows.groupBy("v").count().select("v", F.lit(told()).alias("driver"), seen("v").alias("worker"))
writer = counts.writeStream.queryName("counts").outputMode("complete").format("noop")
writer.option("checkpointLocation", sys.argv[1] + "-checkpoints/counts").start()
spark.streams.awaitAnyTermination()
"""


@pytest.mark.parametrize(
    "version",
    ["4.3", pytest.param("3.5", marks=pytest.mark.nightly("The same on an older Spark."))],
)
def test_a_plan_and_a_rehearsal_share_a_jvm_and_nothing_else(
    version: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spark_folder: Path = request.getfixturevalue(f"spark_{version.replace('.', '_')}")
    runtime = resolve_runtime("spark", {"spark": str(spark_folder)})
    source = tmp_path / "input"
    source.mkdir()
    (source / "1.json").write_text('{"v": 1}\n{"v": 2}\n')
    program = Program(
        application=str(tmp_path / "job.py"), source=SCRIPT.encode(), arguments=(str(source),)
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    with SharedSpark(scratch) as spark:
        plan = plan_script(program, runtime, timeout=PATIENCE, spark=spark)
        found = rehearse(
            *(OfCheckpoints(checkpoints={}), program, runtime),
            bounds=Bounds(seconds=PATIENCE),
            spark=spark,
        )
        starts = spark.starts

    assert (plan.problem, [query.query for query in plan.queries]) == ("", ["counts"])
    assert found.decision is GateDecision.ALLOWED_WITH_CONSEQUENCE, found.findings
    (query,) = found.queries
    told = {(row["driver"], row["worker"]) for row in query.sample}
    assert told == {("AIRFLOW_STREAMING_REHEARSAL", "AIRFLOW_STREAMING_REHEARSAL")}
    assert starts == [NewSpark.FIRST]
    assert list(scratch.iterdir()) == []
