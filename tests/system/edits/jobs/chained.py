"""Sales per shop and twenty seconds, every sale counted once."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"


def sold(events):
    """Count every sale once."""
    return (
        events.withWatermark("ts", "10 seconds")
        .dropDuplicates(["id", "ts"])
        .groupBy(F.window("ts", "20 seconds"), "shop")
        .agg(F.sum("amount").alias("total"))
        .select(F.col("window.start").alias("begin"), "shop", "total")
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("chained").getOrCreate()
    events = (
        spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")
    )
    query = (
        sold(events)
        .writeStream.queryName("chained")
        .option("checkpointLocation", args.checkpoint)
        .option("path", args.output)
        .format("json")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
