"""
Orders whose shape changes: an enforced schema, an output for bad records, and four further versions.

spark-submit orders.py --input /data/orders --output /data/orders_out --version 1

Version 2 adds a column that may be empty, version 3 drops one, version 4 changes the type of a sum,
version 5 adds an aggregate. The README shows which of them may continue from the checkpoint of version 1.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ORDER = "id string, sku string, quantity int, ts timestamp"
SCHEMAS = {1: ORDER, 2: f"{ORDER}, coupon string", 3: "id string, quantity int, ts timestamp"}
LATENESS = "1 hour"


def parsed(lines: DataFrame, schema: str) -> DataFrame:
    """Read JSON with the enforced schema; other records are kept as text."""
    corrupt = f"{schema}, _corrupt string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    return lines.select(F.from_json("value", corrupt, options).alias("o")).select("o.*")


def totals(orders: DataFrame, version: int) -> DataFrame:
    """Sum up the quantities of an hour and article, with state."""
    keys = [name for name in ("sku",) if name in orders.columns]
    amount = F.col("quantity").cast("double") if version == 4 else F.col("quantity")
    more = [F.max("quantity").alias("largest")] if version == 5 else []
    return (
        orders.withWatermark("ts", LATENESS)
        .groupBy(F.window("ts", "1 hour"), *keys)
        .agg(F.sum(amount).alias("quantity"), *more)
        .select(
            F.col("window.start").alias("hour"), *keys, "quantity", *(["largest"] if more else [])
        )
    )


def main() -> None:
    """Start the queries and wait for them."""
    parser = argparse.ArgumentParser(description="Orders, good and bad.")
    parser.add_argument("--input", required=True, help="folder of JSON lines")
    parser.add_argument("--output", required=True)
    parser.add_argument("--version", type=int, choices=(1, 2, 3, 4, 5), default=1)
    parser.add_argument("--trigger-seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.appName("orders")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    lines = spark.readStream.option("maxFilesPerTrigger", 2).text(arguments.input)
    orders = parsed(lines, SCHEMAS.get(arguments.version, ORDER))
    good = orders.where("_corrupt is null").drop("_corrupt")
    # The share of each batch that does not fit, for a health rule.
    bad = F.avg(F.col("_corrupt").isNotNull().cast("double")).alias("bad_share")
    outputs = {
        "orders": good,
        "bad_records": orders.observe("quality", bad)
        .where("_corrupt is not null")
        .select("_corrupt"),
        "totals": totals(good, arguments.version),
    }
    for name, frame in outputs.items():
        (
            frame.writeStream.queryName(name)
            .format("parquet")
            .option("path", f"{arguments.output}/{name}")
            .trigger(processingTime=f"{arguments.trigger_seconds} seconds")
            .start()
        )
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
