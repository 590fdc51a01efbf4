"""Every event once, however often it arrives."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"


def first(events):
    """Leave out what came before."""
    return (
        events.withWatermark("ts", "10 seconds")
        .dropDuplicates(["id", "user", "ts"])
        .select("id", "user", "kind", F.col("amount"))
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("first_seen").getOrCreate()
    events = (
        spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")
    )
    query = (
        first(events)
        .writeStream.queryName("first_seen")
        .option("checkpointLocation", args.checkpoint)
        .option("path", args.output)
        .format("json")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
