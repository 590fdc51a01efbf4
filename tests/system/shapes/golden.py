"""
The twelve queries whose checkpoints are the golden ones, as one PySpark script.

    spark-submit golden.py INPUT_PREFIX OUTPUT SHAPE...

``INPUT_PREFIX`` and a source's short name make its folder, e.g. ``/tmp/zz_src_4.3.0_`` and ``agg``.
Every query has a sink of its own, so that a drill has something to keep from being written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "k STRING, v BIGINT, ts TIMESTAMP"
STORE = "spark.sql.streaming.stateStore"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = {
    f"{STORE}.providerClass": ROCKS,
    f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}
CONF: dict[str, dict[str, str]] = {
    "agg_rocks": {f"{STORE}.providerClass": ROCKS},
    "agg_rocks_changelog": CHANGELOG,
    "agg_rocks_v2": {**CHANGELOG, f"{STORE}.checkpointFormatVersion": "2"},
    "dedup_rocks_tws": {f"{STORE}.providerClass": ROCKS},
    "join_rocks": {f"{STORE}.providerClass": ROCKS},
}

spark = SparkSession.builder.appName("golden").getOrCreate()
prefix, output, shapes = sys.argv[1], sys.argv[2], sys.argv[3:]


def source(name: str) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    # What a drill must not let happen to the input.
    return reader.option("cleanSource", "delete").json(prefix + name)


def stateless(name: str) -> DataFrame:
    return source(name).select("k", (F.col("v") * 2).alias("v2"))


def aggregate() -> DataFrame:
    rows = source("agg").withWatermark("ts", "1 minute")
    window = F.window("ts", "1 minute")
    return rows.groupBy(window, "k").agg(F.sum("v"), F.count("*"))


def joined() -> DataFrame:
    left = source("ja").withWatermark("ts", "2 minutes").alias("a")
    right = source("jb").withWatermark("ts", "2 minutes").alias("b")
    near = F.expr(
        "a.k = b.k AND b.ts >= a.ts - INTERVAL 1 MINUTE AND b.ts <= a.ts + INTERVAL 1 MINUTE"
    )
    return left.join(right, near).selectExpr("a.k AS k", "a.v AS v", "b.v AS w")


def sessions() -> DataFrame:
    rows = source("sw").withWatermark("ts", "1 minute")
    return rows.groupBy(F.session_window("ts", "30 seconds"), "k").count()


QUERIES: dict[str, Callable[[], DataFrame]] = {
    "stateless": lambda: stateless("sl"),
    "many_batches": lambda: stateless("mb"),
    "agg": aggregate,
    "agg_rocks": aggregate,
    "agg_rocks_changelog": aggregate,
    "agg_rocks_v2": aggregate,
    "dedup": lambda: source("dd").withWatermark("ts", "1 minute").dropDuplicates(["k", "ts"]),
    "dedup_rocks_tws": lambda: (
        source("dw").withWatermark("ts", "1 minute").dropDuplicatesWithinWatermark(["k"])
    ),
    "join": joined,
    "join_rocks": joined,
    "session": sessions,
    "complete": lambda: source("co").groupBy("k").count(),
}


def write(rows: DataFrame, batch: int) -> None:
    """A user's function that a drill must not call."""
    rows.write.mode("append").json(f"{output}/written-by-function")


for shape in shapes:
    conf = {"spark.sql.shuffle.partitions": "3", **CONF.get(shape, {})}
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    writer = QUERIES[shape]().writeStream.queryName(shape)
    writer = writer.option("checkpointLocation", f"{output}/checkpoints/{shape}")
    if shape == "complete":
        writer.outputMode("complete").foreachBatch(write).start()
    elif shape == "stateless":
        writer.partitionBy("k").start(f"{output}/{shape}", format="parquet")
    elif shape == "many_batches":
        writer.toTable("many_batches")
    else:
        writer.format("parquet").trigger(processingTime="1 second").start(f"{output}/{shape}")
    for key, was in before.items():
        if was is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, was)

spark.streams.awaitAnyTermination()
