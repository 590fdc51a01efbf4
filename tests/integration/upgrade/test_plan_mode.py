"""Plan mode with a real Spark: every query of a script is told, and none is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.model.plan.text import text_of
from airflow_streaming.model.plan.tree import literal
from airflow_streaming.model.spark.plan import OperatorKind, QueryPlan, ScriptPlan, SourcePlan
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.runner import Program
from tests.patience import PATIENCE

SCRIPT = """
import os, sys
from pyspark.sql import SparkSession, functions as F

assert os.environ["AIRFLOW_STREAMING_PLAN"] == "1"
spark = SparkSession.builder.master("spark://nowhere:7077").getOrCreate()
folder = sys.argv[1]

def rows():
    read = spark.readStream.schema("ts timestamp, k string, v long")
    return read.option("maxFilesPerTrigger", 2).json(folder).withWatermark("ts", "90 seconds")

def begin(made, name, mode="append"):
    place = f"{folder}/checkpoints/{name}"
    return made.writeStream.queryName(name).outputMode(mode).option("checkpointLocation", place)

window = F.window("ts", "20 seconds", "10 seconds", "2 seconds")
sums = rows().groupBy(window, F.upper("k").alias("k")).agg(F.count("*").alias("n"), F.sum("v"))
writer = begin(sums, "sums").partitionBy("k").trigger(processingTime="10 seconds")
writer.start(path=f"{folder}/sums", format="parquet")

def write(batch, number):
    raise AssertionError("no query is started")

once = rows().dropDuplicates(["k", "ts"]).filter("v > 3")
begin(once, "once").foreachBatch(write).trigger(availableNow=True).start()

other = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
near = (F.col("v") == F.col("value")) & (F.col("timestamp") >= F.col("ts"))
near = near & (F.col("timestamp") <= F.col("ts") + F.expr("interval 5 seconds"))
pairs = rows().join(other, near, "leftOuter").select("k", "value")
kafka = {"kafka.bootstrap.servers": "b:9092", "kafka.sasl.jaas.config": "a secret"}
begin(pairs, "pairs").format("kafka").option("topic", "pairs").options(**kafka).start()

routed = pairs.select(F.col("k").alias("value"), F.lit("routed").alias("topic"))
routed = routed.withColumn("headers", F.lit(None).cast("array<struct<key:string,value:binary>>"))
begin(routed, "routed").format("kafka").options(**kafka).start()
by_row = pairs.select(F.col("k").alias("value"), F.concat(F.lit("pairs-"), "k").alias("topic"))
begin(by_row, "by_row").format("kafka").options(**kafka).start()
topic = F.when(F.col("v") > 3, "large").when(F.col("v").isNull(), F.lit("odd")).otherwise("small")
chosen = pairs.withColumn("v", F.col("value")).select(F.col("k").alias("value"), topic.alias("topic"))
chosen = chosen.unionByName(routed.drop("headers").withColumn("topic", F.coalesce(F.expr("nvl(topic, 'no')"), F.lit("none"))))
begin(chosen, "chosen").format("kafka").options(**kafka).start()

sessions = rows().groupBy(F.session_window("ts", "5 seconds"), "k").count()
query = begin(sessions, "sessions").toTable("sessions")
assert not query.isActive
spark.streams.awaitAnyTermination()
raise AssertionError("whoever waits for any query has started all")
"""


QUERIES = ["sums", "once", "pairs", "routed", "by_row", "chosen", "sessions"]


def operator(plan: ScriptPlan, name: str) -> tuple[QueryPlan, OperatorKind, tuple[str, ...]]:
    query = plan.query(name)
    assert query is not None
    (found,) = query.operators
    return query, found.sort, (*map(text_of, found.key_expressions), *map(text_of, found.values))


def test_every_query_of_a_script_is_told_and_none_is_started(
    tmp_path: Path, spark_4_3: Path
) -> None:
    source = tmp_path / "input"
    source.mkdir()
    program = Program(
        application=str(tmp_path / "job.py"), source=SCRIPT.encode(), arguments=(str(source),)
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)})

    plan = plan_script(program, runtime, scratch=scratch, timeout=PATIENCE)

    assert plan.problem == ""
    assert [query.query for query in plan.queries] == QUERIES
    assert [query.notes for query in plan.queries] == [()] * len(QUERIES)
    sums, sort, made_of = operator(plan, "sums")
    assert sort is OperatorKind.AGGREGATE
    window = "window(ts, length=20 seconds, slide=10 seconds, start=2 seconds)"
    assert made_of == (window, "upper(k)", "count(1)", "sum(v)")
    assert sums.operators[0].window_us == (20_000_000, 10_000_000, 2_000_000)
    assert sums.operators[0].output_names == (("n",), ("sum(v)",))
    assert (sums.sink.sink, sums.sink.partitioned_by) == ("file", ("k",))
    assert sums.sink.target == f"{source}/sums"
    assert sums.checkpoint == f"{source}/checkpoints/sums"
    assert [(w.column, w.delay_ms) for w in sums.watermarks] == [("ts", 90_000)]
    assert sums.sources[0].options == {"maxfilespertrigger": "2"}
    once, sort, made_of = operator(plan, "once")
    assert (sort, made_of) == (OperatorKind.DEDUPLICATE, ("k", "ts"))
    assert (once.sink.sink, once.sink.target) == ("foreachbatch", "write")
    assert once.processing_trigger == "available now"
    pairs, sort, made_of = operator(plan, "pairs")
    assert (sort, made_of) == (OperatorKind.JOIN, ("(v = value)",))
    assert [column.name for column in pairs.operators[0].left] == ["ts", "k", "v"]
    assert pairs.sink.options["kafka.sasl.jaas.config"] == "(redacted)"
    targets = [query.sink.target for query in plan.queries if query.sink.sink == "kafka"]
    assert targets == ["pairs", "routed", "", ""]
    chosen = plan.query("chosen")
    assert chosen is not None
    assert chosen.sink.topics == ("large", "no", "none", "odd", "routed", "small")
    sessions, sort, _ = operator(plan, "sessions")
    assert (sort, sessions.operators[0].gap) == (
        OperatorKind.SESSION_WINDOW,
        literal("5 seconds", "interval"),
    )
    assert (sessions.sink.sink, sessions.sink.target) == ("table", "sessions")
    assert list(source.iterdir()) == []
    assert list(scratch.iterdir()) == []


LANES = """
import sys
from pyspark.sql import SparkSession, functions as F

output = sys.argv[1]
spark = SparkSession.builder.getOrCreate()

def write(batch, number):
    batch.write.mode("append").json(f"{output}/late")

rows = spark.readStream.format("rate").load().withColumn("place", F.lit(output))
rows.writeStream.queryName("late").foreachBatch(write).start()
"""


@pytest.mark.nightly("A Spark for each lane.")
def test_one_script_gives_one_plan_in_both_lanes(tmp_path: Path, spark_4_3: Path) -> None:
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)})

    def planned(lane: str) -> QueryPlan:
        output = f"/srv/{lane}/out"
        program = Program(
            application=str(tmp_path / "job.py"),
            source=LANES.encode(),
            arguments=(output,),
            output=output,
        )
        told = plan_script(program, runtime, scratch=tmp_path, timeout=PATIENCE)
        assert told.problem == ""
        return told.queries[0]

    blue, green = planned("blue"), planned("green")

    assert green.sink.code == blue.sink.code
    assert green.sink.code.endswith("{output}")
    assert green.nodes == blue.nodes
    assert green.steps != blue.steps, "shown to readers with its own places"


INFERRING = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.streaming.schemaInference", "true")
folder = sys.argv[1]
frames = {
    "inferred": spark.readStream.json(folder),
    "given": spark.readStream.schema("k string").json(folder),
    "text": spark.readStream.text(folder),
}
with open(folder + "/1.json", "w") as file:
    file.write('{"k": "a", "v": 0.5, "w": true}\\n')
frames["later"] = spark.readStream.json(folder)
for name, frame in frames.items():
    frame.writeStream.queryName(name).format("noop").option("checkpointLocation", folder + name).start()
"""


@pytest.mark.nightly("A Spark of its own.")
def test_a_source_whose_columns_are_inferred_is_marked(tmp_path: Path, spark_4_3: Path) -> None:
    source = tmp_path / "input"
    source.mkdir()
    (source / "0.json").write_text('{"k": "a", "v": 1}\n')
    program = Program(
        application=str(tmp_path / "job.py"), source=INFERRING.encode(), arguments=(str(source),)
    )

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)})

    told = plan_script(program, runtime, scratch=scratch, timeout=PATIENCE)

    found = {plan.query: plan.sources[0] for plan in told.queries}
    assert {name: one.inferred for name, one in found.items()} == {
        "inferred": True,
        "given": False,
        "text": False,
        "later": True,
    }
    assert columns(found["inferred"]) == {"k": "string", "v": "bigint"}
    assert columns(found["later"]) == {"k": "string", "v": "double", "w": "boolean"}


def columns(source: SourcePlan) -> dict[str, str]:
    return {column.name: column.type for column in source.schema}
