"""
Runs streaming queries for the tests of restore, one after the other, as told line by line.

It knows nothing of this package: what is restored has to do for Spark alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

SCHEMA = "id long, k string"


def main() -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.minBatchesToRetain", "5")
        .getOrCreate()
    )
    tell(spark.version)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            run(spark, order)
            answer = "done"
        except Exception as err:  # noqa: BLE001 - whatever Spark raises is the answer
            answer = f"{type(err).__name__}: {err}"[:2000]
        tell(answer)


def tell(answer: str) -> None:
    sys.stdout.write(f"@{json.dumps(answer)}\n")
    sys.stdout.flush()


def run(spark: SparkSession, order: dict[str, Any]) -> None:
    for key, value in order.get("conf", {}).items():
        spark.conf.set(key, value)
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(order["input"])
    query = SHAPES[order["shape"]](files, order)
    query.trigger(availableNow=True).option("checkpointLocation", order["checkpoint"]).start(
        **order.get("start", {})
    ).awaitTermination()
    for key in order.get("conf", {}):
        spark.conf.unset(key)


def counts(files: DataFrame, order: dict[str, Any]) -> DataStreamWriter:
    """Totals of each key; every batch writes those that it changed into a file of its own."""

    def write(rows: DataFrame, batch: int) -> None:
        found = {row["k"]: [row["n"], row["total"]] for row in rows.collect()}
        Path(order["output"]).mkdir(parents=True, exist_ok=True)
        Path(order["output"], f"{batch}.json").write_text(json.dumps(found, sort_keys=True))

    totals = files.groupBy("k").agg(F.count("*").alias("n"), F.sum("id").alias("total"))
    return totals.writeStream.outputMode("update").foreachBatch(write)


def plain(files: DataFrame, order: dict[str, Any]) -> DataStreamWriter:
    """Every row as it is, to files; a query without state."""
    return files.writeStream.format("json").option("path", order["output"])


def changed(files: DataFrame, order: dict[str, Any]) -> DataStreamWriter:
    """The next release of ``plain``: another column, another filter."""
    rows = files.where("k <> 'never'").withColumn("twice", F.col("id") * 2)
    return rows.writeStream.format("json").option("path", order["output"])


def distinct(files: DataFrame, order: dict[str, Any]) -> DataStreamWriter:
    """Every row once, to files; a query with state."""
    return files.dropDuplicates(["id"]).writeStream.format("json").option("path", order["output"])


SHAPES = {"counts": counts, "plain": plain, "changed": changed, "distinct": distinct}

if __name__ == "__main__":
    main()
