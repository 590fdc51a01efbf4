"""
Revenue of a shop per country and day, from a folder into which files of order lines arrive.

A plain Spark application: it does not know its launcher or supervisor. One file is one arrival. A
day's figure is written once, when the watermark has passed the end of the day, so that lines which
come up to one day late are still counted.

spark-submit retail_revenue.py --input /data/orders --output /data/revenue
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DecimalType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

LATENESS = "1 day"

# Money is decimal: sums of doubles depend on the order of the rows.
ORDER_LINE = StructType(
    [
        StructField("InvoiceNo", StringType()),
        StructField("StockCode", StringType()),
        StructField("Description", StringType()),
        StructField("Quantity", IntegerType()),
        StructField("InvoiceDate", TimestampType()),
        StructField("UnitPrice", DecimalType(12, 4)),
        StructField("CustomerID", StringType()),
        StructField("Country", StringType()),
    ]
)

CSV_OPTIONS = {"header": "true", "escape": '"', "timestampFormat": "yyyy-MM-dd HH:mm:ss"}


def revenue(lines: DataFrame) -> DataFrame:
    """Sum up the order lines of every country and day; canceled lines count negative."""
    return (
        lines.withWatermark("InvoiceDate", LATENESS)
        .groupBy(F.window("InvoiceDate", "1 day"), "Country")
        .agg(
            F.sum(F.col("Quantity") * F.col("UnitPrice")).alias("revenue"),
            F.count("*").alias("order_lines"),
        )
        .select(
            F.to_date("window.start").alias("day"),
            F.col("Country").alias("country"),
            "revenue",
            "order_lines",
        )
    )


def new_session() -> SparkSession:
    """Return a session that reads times and cuts days in UTC, on any machine."""
    return (
        SparkSession.builder.appName("retail_revenue")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Revenue per country and day.")
    parser.add_argument("--input", required=True, help="folder of CSV files")
    parser.add_argument("--output", required=True, help="folder of the parquet output")
    parser.add_argument("--trigger-seconds", type=float, default=2.0)
    parser.add_argument("--files-per-batch", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    """Start the query and wait for it."""
    arguments = parse_arguments()
    lines = (
        new_session()
        .readStream.schema(ORDER_LINE)
        .options(**CSV_OPTIONS)
        .option("maxFilesPerTrigger", arguments.files_per_batch)
        .csv(arguments.input)
    )
    query = (
        revenue(lines)
        .writeStream.queryName("revenue")
        .outputMode("append")
        .format("parquet")
        .option("path", arguments.output)
        .trigger(processingTime=f"{arguments.trigger_seconds} seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
