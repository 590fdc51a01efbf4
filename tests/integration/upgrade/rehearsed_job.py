"""
A new version of five golden queries; two are good, three are bad in ways of their own.

    spark-submit rehearsed_job.py INPUT_PREFIX_3_5 INPUT_PREFIX_4_3 OUTPUT
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "k STRING, v BIGINT, ts TIMESTAMP"

spark = SparkSession.builder.appName("rehearsed").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "3")
old, new, output = sys.argv[1:]


def source(prefix: str, name: str) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    # What a rehearsal must not let happen to the input.
    return reader.option("cleanSource", "delete").json(prefix + name)


def write(rows: DataFrame, batch: int) -> None:
    """A user's function that a rehearsal must not call."""
    rows.write.mode("append").json(f"{output}/written-by-function")


def start(rows: DataFrame, name: str, mode: str = "append") -> None:
    writer = rows.writeStream.queryName(name).outputMode(mode)
    if name == "complete":
        writer = writer.foreachBatch(write)
    else:
        writer = writer.format("parquet").option("path", f"{output}/{name}")
    writer.option("checkpointLocation", f"{output}/checkpoints/{name}").start()


def joined() -> DataFrame:
    left = source(old, "ja").withWatermark("ts", "2 minutes").alias("a")
    right = source(old, "jb").withWatermark("ts", "2 minutes").alias("b")
    near = F.expr(
        "a.k = b.k AND b.ts >= a.ts - INTERVAL 1 MINUTE AND b.ts <= a.ts + INTERVAL 1 MINUTE"
    )
    return left.join(right, near).selectExpr("a.k AS k", "a.v AS v", "b.v AS w")


def aggregated() -> DataFrame:
    rows = source(old, "agg").observe("seen", F.count(F.lit(1)).alias("rows"))
    window = F.window("ts", "1 minute")
    return rows.withWatermark("ts", "1 minute").groupBy(window, "k").agg(F.sum("v"), F.count("*"))


fails_at_large = F.when(F.col("v") > 5000, F.raise_error(F.lit("v is too large"))).otherwise(
    F.col("k")
)

start(aggregated(), "agg")
start(
    source(new, "sl").select("k", (F.col("v") * 2).alias("v2"), F.lit("s3cret").alias("api_token")),
    "stateless",
)
start(source(new, "co").groupBy(fails_at_large.alias("k")).count(), "complete", "complete")
start(joined(), "join")
start(
    source(new, "sw")
    .withWatermark("ts", "1 minute")
    .groupBy(F.session_window("ts", "30 seconds"), F.col("v").alias("k"))
    .count(),
    "session",
)
spark.streams.awaitAnyTermination()
