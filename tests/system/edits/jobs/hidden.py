"""Totals that are kept for ever, made of what the text of a plan does not show."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"
SHOP = "shop string, town string, size long"
FEE = 3


def keep(folder):
    """Return a function that writes a batch over what an earlier attempt at it wrote."""

    def write(batch, number):
        rows = [row.asDict(recursive=True) for row in batch.collect()]
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"batch-{number}.json").write_text(json.dumps(rows, default=str))

    return write


def weight(factor):
    """Return a function that weighs an amount."""

    def weighed(amount):
        return (amount or 0) * factor + FEE

    return F.udf(weighed, "bigint")


@F.udf("string")
def spelled(town):
    """Return the name of a town as everybody spells it."""
    return town.upper() if town else "NONE"


def tables(spark, folder):
    """Name the tables, and the rate of the day."""
    for name in ("shops", "towns"):
        spark.read.schema(SHOP).json(f"{folder}/{name}").createOrReplaceTempView(name)
    spark.sql("DECLARE OR REPLACE VARIABLE rate BIGINT DEFAULT 2")


def totals(spark, events):
    """Sum up what was sold in every town."""
    return (
        events.where("shop IN (SELECT shop FROM shops)")
        .join(spark.table("shops"), "shop")
        .withColumn("amount", F.expr("amount * rate + (SELECT min(size) FROM shops)"))
        .withColumn("weighed", weight(5)("amount"))
        .withColumn("parsed", F.from_json(F.format_string("{'n': %d}", "amount"), "n int, m int"))
        .withColumn("pieces", F.from_csv(F.concat_ws(",", "shop", "kind"), "a string, b string"))
        .withColumn("label", F.to_json(F.struct("user")))
        .groupBy("town", "label")
        .agg(
            F.expr("sum(weighed)").alias("weighed"),
            F.sum("parsed.n").alias("parsed"),
            F.max("pieces.a").alias("newest"),
        )
        .withColumn("name", spelled("town"))
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("hidden").getOrCreate()
    tables(spark, args.input)
    events = (
        spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")
    )
    query = (
        totals(spark, events)
        .writeStream.queryName("hidden")
        .option("checkpointLocation", args.checkpoint)
        .outputMode("update")
        .foreachBatch(keep(args.output))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
