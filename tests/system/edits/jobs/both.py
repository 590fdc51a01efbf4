"""Sales and payments in one list: two sources, no state."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"
PAYMENT = "sale string, payer string, means string, paid long, at timestamp"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("both").getOrCreate()
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    sales = reader.schema(EVENT).json(f"{args.input}/events").selectExpr("id", "amount")
    payments = reader.schema(PAYMENT).json(f"{args.input}/payments").selectExpr("sale", "paid")
    query = (
        sales.union(payments)
        .writeStream.queryName("both")
        .option("checkpointLocation", args.checkpoint)
        .option("path", args.output)
        .format("json")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
