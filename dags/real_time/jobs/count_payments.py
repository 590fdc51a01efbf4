"""
The number of payments of each card, written again with every payment: state in real-time mode (Spark 4.3).

Real-time mode chooses RocksDB and checkpoint format 2 itself. The tasks that read and the tasks that count run at the
same time, so the application needs a core for each partition of the topic and for each shuffle partition.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def counted(rows: DataFrame) -> DataFrame:
    """Count the payments of each key."""
    counts = rows.groupBy(F.col("key").cast("string").alias("key")).agg(
        F.count("*").alias("payments")
    )
    return counts.select("key", F.to_json(F.struct("key", "payments")).alias("value"))


def main() -> None:
    """Run the query until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", default="payments")
    parser.add_argument("--into", default="payments_by_card")
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
        counted(rows)
        .writeStream.queryName("counted")
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
