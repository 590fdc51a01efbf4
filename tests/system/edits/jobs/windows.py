"""What was sold in every twenty seconds, per shop, once they are over."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"
LATENESS = "10 seconds"


def keep(folder):
    """Return a function that writes a batch over what an earlier attempt at it wrote."""

    def write(batch, number):
        rows = [row.asDict(recursive=True) for row in batch.collect()]
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"batch-{number}.json").write_text(json.dumps(rows, default=str))

    return write


def sold(events):
    """Sum up the sales of every window and shop."""
    return (
        events.withWatermark("ts", LATENESS)
        .groupBy(F.window("ts", "20 seconds"), "shop")
        .agg(F.sum("amount").alias("total"), F.count("*").alias("number"))
        .select(F.col("window.start").alias("begin"), "shop", "total", "number")
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("windows").getOrCreate()
    events = (
        spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")
    )
    query = (
        sold(events)
        .writeStream.queryName("sold")
        .option("checkpointLocation", args.checkpoint)
        .outputMode("append")
        .foreachBatch(keep(args.output))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
