"""Sales and the payments that follow within five seconds."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"
PAYMENT = "sale string, payer string, means string, paid long, at timestamp"


def paid_sales(sales, payments):
    """Find the payment of every sale."""
    left = sales.withWatermark("ts", "10 seconds").select("id", "user", "amount", "ts")
    right = payments.withWatermark("at", "10 seconds")
    near = F.expr("id = sale AND at >= ts AND at <= ts + INTERVAL 5 SECONDS")
    return left.join(right, near, "inner").select("id", "amount", "paid", "means")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("pairs").getOrCreate()
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    sales = reader.schema(EVENT).json(f"{args.input}/events")
    payments = reader.schema(PAYMENT).json(f"{args.input}/payments")
    query = (
        paid_sales(sales, payments)
        .writeStream.queryName("pairs")
        .option("checkpointLocation", args.checkpoint)
        .option("path", args.output)
        .format("json")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
