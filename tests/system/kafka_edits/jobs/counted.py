"""Counts of a topic's keys, for ever, into another topic."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("counted").getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .load()
    )
    counts = records.groupBy("key").agg(f.count("*").alias("n"))
    query = (
        counts.select("key", f.col("n").cast("string").alias("value"))
        .writeStream.queryName("counted")
        .outputMode("update")
        .format("kafka")
        .option("kafka.bootstrap.servers", args.servers)
        .option("topic", "counts")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
