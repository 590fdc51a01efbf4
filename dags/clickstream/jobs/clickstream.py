"""
A shop's clicks: sessions, which view led to which click, and two sources with one watermark.

    spark-submit clickstream.py --input /data/clicks --products /data/products --output /data/shop

``products`` is a folder of CSV files that changes while the stream runs: it is read anew for every
batch, because a frame that was read before the query started keeps the files it found then.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

EVENT = "id string, user string, kind string, product string, ts timestamp"
LATENESS = "1 hour"
TOGETHER = "INTERVAL 5 MINUTES"
GAP = "30 minutes"


def events(lines: DataFrame) -> DataFrame:
    """Return every event once."""
    return (
        lines.select(F.from_json("value", EVENT).alias("event"))
        .where("event.id is not null")
        .select("event.*")
        .withWatermark("ts", LATENESS)
        .dropDuplicates(["id", "ts"])
    )


def sessions(found: DataFrame) -> DataFrame:
    """Return a user's sessions with the three most viewed products."""
    ranked = F.expr(
        "array_sort(transform(array_distinct(seen), product -> "
        "struct(-size(filter(seen, one -> one = product)) as times, product)))"
    )
    return (
        found.groupBy(F.session_window("ts", GAP).alias("session"), "user")
        .agg(F.count("*").alias("events"), F.collect_list("product").alias("seen"))
        .select(
            F.col("session.start").alias("start"),
            F.col("session.end").alias("end"),
            "user",
            "events",
            F.slice(ranked, 1, 3).getField("product").alias("top"),
        )
    )


def attributed(views: DataFrame, clicks: DataFrame) -> DataFrame:
    """Join clicks to the views of the same product by the same user, five minutes both ways."""
    seen = views.where("kind = 'view'").select(
        F.col("id").alias("view_id"), "user", "product", F.col("ts").alias("viewed_at")
    )
    clicked = clicks.where("kind = 'click'").select(
        F.col("id").alias("click_id"),
        F.col("user").alias("by"),
        F.col("product").alias("of"),
        F.col("ts").alias("clicked_at"),
    )
    near = F.expr(
        "user = by and product = of and clicked_at >= viewed_at - "
        f"{TOGETHER} and clicked_at <= viewed_at + {TOGETHER}"
    )
    return seen.join(clicked, near).select("view_id", "click_id", "product", "clicked_at")


def hourly(both: DataFrame) -> DataFrame:
    """Count the events of an hour, of two sources that are not equally fast."""
    return (
        both.groupBy(F.window("ts", "1 hour"), "kind")
        .agg(F.count("*").alias("events"))
        .select(F.col("window.start").alias("hour"), "kind", "events")
    )


def named(products: str, output: str) -> Callable[[DataFrame, int], None]:
    """Return a sink that adds the products' names as they are now, each batch in its own folder."""

    def write(batch: DataFrame, number: int) -> None:
        table = batch.sparkSession.read.schema("product string, name string").csv(products)
        # A repeated batch overwrites its first output.
        batch.join(table, "product", "left").write.mode("overwrite").parquet(
            f"{output}/batch={number:06}"
        )

    return write


def main() -> None:
    """Start the queries and wait for them."""
    parser = argparse.ArgumentParser(description="Sessions and attribution of a shop.")
    parser.add_argument("--input", required=True, help="folder of JSON lines")
    parser.add_argument(
        "--slow", help="folder of a second source; default: no query on two sources"
    )
    parser.add_argument("--products", required=True, help="folder of CSV files: product, name")
    parser.add_argument("--output", required=True)
    parser.add_argument("--policy", choices=("min", "max"), default="min")
    parser.add_argument("--trigger-seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.appName("clickstream")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.multipleWatermarkPolicy", arguments.policy)
        .getOrCreate()
    )
    every = f"{arguments.trigger_seconds} seconds"

    def source(folder: str) -> DataFrame:
        return events(spark.readStream.option("maxFilesPerTrigger", 1).text(folder))

    if arguments.slow:
        both = source(arguments.input).union(source(arguments.slow))
        hourly(both).writeStream.queryName("hourly").trigger(processingTime=every).format(
            "parquet"
        ).option("path", f"{arguments.output}/hourly").start()
    else:
        sessions(source(arguments.input)).writeStream.queryName("sessions").trigger(
            processingTime=every
        ).format("parquet").option("path", f"{arguments.output}/sessions").start()
        attributed(source(arguments.input), source(arguments.input)).writeStream.queryName(
            "attributed"
        ).trigger(processingTime=every).foreachBatch(
            named(arguments.products, f"{arguments.output}/attributed")
        ).start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
