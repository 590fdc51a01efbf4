"""
Mentions: the topics of the last half hour, and their mood.

spark-submit social_trends.py --input /data/mentions --output /data/trends

The sentiment is a table of words with a weight each: small enough to read, and a place to put a
real model. Top-K of a stream needs all topics of a window at once, so it is taken in
``foreachBatch`` from the closed windows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

MENTION = "id string, user string, text string, ts timestamp"
LATENESS = "1 hour"
WEIGHTS = {"fine": 1, "good": 2, "great": 3, "slow": -1, "broken": -2, "awful": -3}
TOP = 3


def mood() -> F.Column:
    """Return the sum of the weights of a text's words."""
    weights = F.create_map(*(F.lit(part) for pair in WEIGHTS.items() for part in pair))
    each = F.transform(F.split("text", " "), lambda word: F.coalesce(weights[word], F.lit(0)))
    return F.aggregate(each, F.lit(0), lambda total, one: total + one)


def topics(lines: DataFrame) -> DataFrame:
    """Count the mentions of each topic in half hours that begin every ten minutes."""
    mentions = (
        lines.select(F.from_json("value", MENTION).alias("mention"))
        .where("mention.id is not null")
        .select("mention.*")
        .withWatermark("ts", LATENESS)
        .dropDuplicates(["id", "ts"])
    )
    tagged = mentions.select(
        "ts", mood().alias("mood"), F.explode(F.expr("regexp_extract_all(text, '#(\\\\w+)')"))
    ).withColumnRenamed("col", "topic")
    return (
        tagged.groupBy(F.window("ts", "30 minutes", "10 minutes"), "topic")
        .agg(F.count("*").alias("mentions"), F.sum("mood").alias("mood"))
        .select(F.col("window.start").alias("start"), "topic", "mentions", "mood")
    )


def top(closed: DataFrame) -> DataFrame:
    """Return the three topics of each window that were mentioned most; names decide a tie."""
    order = Window.partitionBy("start").orderBy(F.desc("mentions"), "topic")
    return closed.withColumn("place", F.row_number().over(order)).where(F.col("place") <= TOP)


def into_folders(output: str) -> Callable[[DataFrame, int], None]:
    """Return a sink that writes each batch over an earlier attempt's output."""

    def write(batch: DataFrame, number: int) -> None:
        top(batch).write.mode("overwrite").parquet(f"{output}/batch={number:06}")

    return write


def main() -> None:
    """Start the query and wait for it."""
    parser = argparse.ArgumentParser(description="Trending topics.")
    parser.add_argument("--input", required=True, help="folder of JSON lines")
    parser.add_argument("--output", required=True)
    parser.add_argument("--trigger-seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.appName("social_trends")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    lines = spark.readStream.option("maxFilesPerTrigger", 2).text(arguments.input)
    query = (
        topics(lines)
        .writeStream.queryName("trends")
        .outputMode("append")
        .foreachBatch(into_folders(arguments.output))
        .trigger(processingTime=f"{arguments.trigger_seconds} seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
