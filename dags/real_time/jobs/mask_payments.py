"""
Payments from one topic of Kafka into another, each row as it comes, with the card number masked.

The trigger's interval says how often the query commits, not how long a row takes.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

LATENCY = (
    "cast(reflect('java.lang.System', 'currentTimeMillis') as bigint) - unix_millis(timestamp)"
)
"""Milliseconds since the producer sent a row. Spark's own current_timestamp() stands still during a batch."""


def measured(rows: DataFrame) -> DataFrame:
    """Report percentiles of the latency with every commit: ``latency.p50`` and so on in rules and charts."""
    timed = rows.withColumn("latency_ms", F.expr(LATENCY))
    percentiles = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    figures = [
        F.percentile_approx("latency_ms", share).alias(name) for name, share in percentiles.items()
    ]
    return timed.observe("latency", *figures, F.max("latency_ms").alias("max"))


def masked(rows: DataFrame) -> DataFrame:
    """Keep the last four digits of each number of sixteen."""
    text = F.col("value").cast("string")
    return rows.select(
        "key", F.regexp_replace(text, r"\b\d{12}(\d{4})\b", "************$1").alias("value")
    )


def main() -> None:
    """Run the query until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", default="payments")
    parser.add_argument("--into", default="masked")
    parser.add_argument("--interval", default="30 seconds")
    given = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given.servers)
        .option("subscribe", given.topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        masked(measured(rows))
        .writeStream.queryName("masked")
        .format("kafka")
        .option("kafka.bootstrap.servers", given.servers)
        .option("topic", given.into)
        .outputMode("update")
        .trigger(realTime=given.interval)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
