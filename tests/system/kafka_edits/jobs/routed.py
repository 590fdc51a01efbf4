"""Two topics into one: no state."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("routed").getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", "clicks,views")
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = records.select(
        f.col("key").cast("string").alias("key"),
        f.col("value").cast("string").alias("value"),
    )
    query = (
        rows.writeStream.queryName("routed")
        .format("kafka")
        .option("kafka.bootstrap.servers", args.servers)
        .option("topic", "out")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
