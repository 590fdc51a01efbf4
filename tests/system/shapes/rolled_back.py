"""
Three queries on one input, run until nothing is left; started by ``rollbacks`` in a Spark of its own.

``files`` keeps no state and writes with the file sink. ``table`` counts by key and replaces what a
batch of the same id wrote. ``ledger`` appends a batch unless its id is in a ledger. The code is
``good``, or ``bad``: it writes every value times 1000 and takes two files a batch instead of one; or
``broken``: every batch fails.
"""

# ruff: noqa: T201 - a program of another Python

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--driver-memory 700m pyspark-shell")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def main() -> None:
    orders = json.loads(Path(sys.argv[1]).read_text())
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    for order in orders:
        told = show(spark, order) if order.get("read") else run(spark, order)
        print("@" + json.dumps({"spark": spark.version, **told}), flush=True)
    spark.stop()


def run(spark: SparkSession, order: dict[str, str]) -> dict[str, int]:
    """Run all three queries until they have read everything; tell the last batch of each."""
    is_good, out = order["code"] == "good", Path(order["out"])
    rows = (
        spark.readStream.schema("id long, k string, v long")
        .option("maxFilesPerTrigger", 1 if is_good else 2)
        .json(order["input"])
        .withColumn("v", F.col("v") * (1 if is_good else 1000))
    )

    if order["code"] == "broken":
        rows = rows.withColumn("v", F.raise_error(F.lit("It is broken.")).cast("long"))

    def replace(batch: DataFrame, number: int) -> None:
        batch.coalesce(1).write.mode("overwrite").json(str(out / f"table/batch={number}"))

    def remember(batch: DataFrame, number: int) -> None:
        mark = out / f"ledger/{number}.json"
        mark.parent.mkdir(parents=True, exist_ok=True)
        if not mark.exists():
            mark.write_text("\n".join(batch.toJSON().collect()))

    writers = {
        "files": rows.writeStream.format("parquet")
        .partitionBy("k")
        .option("path", str(out / "files")),
        "table": rows.groupBy("k")
        .agg(F.count("*").alias("n"), F.sum("v").alias("v"))
        .writeStream.outputMode("update")
        .foreachBatch(replace),
        "ledger": rows.writeStream.foreachBatch(remember),
    }
    last = {}
    for name, writer in writers.items():
        query = (
            writer.queryName(name)
            .option("checkpointLocation", f"{order['checkpoint']}/{name}")
            .trigger(availableNow=True)
            .start()
        )
        with contextlib.suppress(Exception):
            query.awaitTermination()
        last[name] = max(
            int(p.name) for p in Path(order["checkpoint"], name, "commits").glob("[0-9]*")
        )
    return last


def show(spark: SparkSession, order: dict[str, str]) -> dict[str, list[str]]:
    """Return what a reader of Spark gets of each output."""
    out = Path(order["read"])
    files = spark.read.parquet(str(out / "files")).select("id", "k", "v")
    ledger = [
        line for p in sorted((out / "ledger").glob("*")) for line in p.read_text().split("\n")
    ]
    table = spark.read.json(str(out / "table")).select("batch", "k", "n", "v")
    return {
        "files": sorted(map(str, files.collect())),
        "table": sorted(map(str, table.collect())),
        "ledger": sorted(ledger),
    }


if __name__ == "__main__":
    main()
