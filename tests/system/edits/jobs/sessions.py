"""Visits: what a user does without a pause of five seconds."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"


def visits(events):
    """Count the events of every visit."""
    return (
        events.where("user IS NOT NULL")
        .withWatermark("ts", "10 seconds")
        .groupBy(F.session_window("ts", "5 seconds").alias("visit"), "user")
        .agg(F.count("*").alias("number"))
        .select(F.col("visit.start").alias("begin"), "user", "number")
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("sessions").getOrCreate()
    events = (
        spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")
    )
    query = (
        visits(events)
        .writeStream.queryName("visits")
        .option("checkpointLocation", args.checkpoint)
        .option("path", args.output)
        .format("json")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
