"""Sales of every day and country, from CSV files, kept for ever."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

LINE = (
    "InvoiceNo string, StockCode string, Description string, Quantity int, InvoiceDate timestamp, "
    "UnitPrice double, CustomerID string, Country string"
)


def keep(folder):
    """Return a function that writes a batch over what an earlier attempt at it wrote."""

    def write(batch, number):
        rows = [row.asDict(recursive=True) for row in batch.collect()]
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"batch-{number}.json").write_text(json.dumps(rows, default=str))

    return write


def sold(lines):
    """Sum up what was sold on every day."""
    return lines.groupBy(F.date_format("InvoiceDate", "yyyy-MM-dd").alias("day"), "Country").agg(
        F.sum("Quantity").alias("sold"), F.count("*").alias("number")
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("ledger").getOrCreate()
    lines = (
        spark.readStream.schema(LINE)
        .option("header", "true")
        .option("timestampFormat", "yyyy-MM-dd HH:mm:ss")
        .option("maxFilesPerTrigger", 1)
        .csv(f"{args.input}/orders")
    )
    query = (
        sold(lines)
        .writeStream.queryName("ledger")
        .option("checkpointLocation", args.checkpoint)
        .outputMode("update")
        .foreachBatch(keep(args.output))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
