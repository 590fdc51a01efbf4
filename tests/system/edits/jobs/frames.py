"""Totals per user that are kept for ever, of what functions of pandas have made."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"


def keep(folder):
    """Return a function that writes a batch over what an earlier attempt at it wrote."""

    def write(batch, number):
        rows = [row.asDict(recursive=True) for row in batch.collect()]
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"batch-{number}.json").write_text(json.dumps(rows, default=str))

    return write


def dear(frames):
    """Leave out what is cheap."""
    for frame in frames:
        yield frame[frame["amount"] > 20]


@F.pandas_udf("bigint")
def doubled(amounts: pd.Series) -> pd.Series:
    """Return the double of each amount."""
    return amounts * 2


def totals(events):
    """Sum up what every user spent."""
    return (
        events.select("user", "amount")
        .mapInPandas(dear, "user string, amount bigint")
        .withColumn("amount", doubled("amount"))
        .groupBy("user")
        .agg(F.sum("amount").alias("total"))
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("frames").getOrCreate()
    events = (
        spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")
    )
    query = (
        totals(events)
        .writeStream.queryName("frames")
        .option("checkpointLocation", args.checkpoint)
        .outputMode("update")
        .foreachBatch(keep(args.output))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
