"""Clean events: dear ones only, with the shop spelled in one way."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"


@F.udf("string")
def spelled(shop):
    """Return the name of a shop as everybody spells it."""
    return shop.upper() if shop else "NONE"


def clean(events):
    """Leave out what is cheap."""
    return events.where("amount > 20").select(
        "id", "user", spelled("shop").alias("shop"), "amount", "ts"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("clicks").getOrCreate()
    events = (
        spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")
    )
    query = (
        clean(events)
        .writeStream.queryName("clicks")
        .option("checkpointLocation", args.checkpoint)
        .option("path", args.output)
        .format("json")
        .trigger(processingTime="5 seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
