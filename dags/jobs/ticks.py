"""
Ticks per minute, from Spark's own rate source: a stream that needs no input.

    spark-submit ticks.py --output s3a://bucket/ticks
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def per_minute(ticks: DataFrame) -> DataFrame:
    """Count the ticks of each minute, final 10 s after its end."""
    minutes = ticks.withWatermark("timestamp", "10 seconds")
    return minutes.groupBy(F.window("timestamp", "1 minute")).count()


def main() -> None:
    """Start the query and wait for it."""
    parser = argparse.ArgumentParser(description="Ticks per minute.")
    parser.add_argument("--output", required=True, help="folder of the table")
    parser.add_argument("--rate", type=int, default=10, help="rows a second")
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("ticks").getOrCreate()
    ticks = spark.readStream.format("rate").option("rowsPerSecond", arguments.rate).load()
    query = (
        per_minute(ticks)
        .writeStream.queryName("ticks")
        .option("path", arguments.output)
        .format("parquet")
        .trigger(processingTime="10 seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
