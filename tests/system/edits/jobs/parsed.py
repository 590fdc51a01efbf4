"""Totals of every shop for ever, from lines of JSON of which some do not fit."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

SALE = "id string, shop string, amount long, ts timestamp"


def keep(folder):
    """Return a function that writes a batch over what an earlier attempt at it wrote."""

    def write(batch, number):
        rows = [row.asDict(recursive=True) for row in batch.collect()]
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"batch-{number}.json").write_text(json.dumps(rows, default=str))

    return write


def fitting(lines):
    """Leave out what is no sale."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    parsed = F.from_json("value", f"{SALE}, _corrupt string", options)
    sales = lines.select(parsed.alias("sale")).select("sale.*")
    return sales.where("_corrupt is null").drop("_corrupt")


def totals(sales):
    """Sum up what every shop sold."""
    return sales.groupBy("shop").agg(F.sum("amount").alias("total"), F.count("id").alias("number"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("parsed").getOrCreate()
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(f"{args.input}/texts")
    query = (
        totals(fitting(lines))
        .writeStream.queryName("parsed")
        .option("checkpointLocation", args.checkpoint)
        .outputMode("update")
        .foreachBatch(keep(args.output))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
