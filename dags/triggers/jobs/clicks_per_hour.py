"""
One query under every processing trigger of Spark.

spark-submit clicks_per_hour.py --input /data/clicks --output /data/hours --trigger available_now

``available_now`` and ``once`` end automatically when the input is read; a dag runs them on a
schedule. ``continuous`` and ``real_time`` show this provider's messages about them.
"""

from __future__ import annotations

import argparse
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

EVENT = "id string, user string, kind string, product string, ts timestamp"
TRIGGERS: dict[str, dict[str, Any]] = {
    "available_now": {"availableNow": True},
    "once": {"once": True},
    "processing_time": {"processingTime": "2 seconds"},
    "continuous": {"continuous": "1 second"},
    "real_time": {"realTime": "1 minute"},
}


def hours(events: DataFrame) -> DataFrame:
    """Count the events of an hour."""
    return (
        events.withWatermark("ts", "1 hour")
        .groupBy(F.window("ts", "1 hour"))
        .agg(F.count("*").alias("events"))
        .select(F.col("window.start").alias("hour"), "events")
    )


def main() -> None:
    """Start the query and wait for it."""
    parser = argparse.ArgumentParser(description="Events per hour.")
    parser.add_argument("--input", required=True, help="folder of JSON lines")
    parser.add_argument("--output", required=True)
    parser.add_argument("--trigger", choices=sorted(TRIGGERS), default="available_now")
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.appName("clicks_per_hour")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    events = spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 2).json(arguments.input)
    query = (
        hours(events.where("id is not null"))
        .writeStream.queryName("hours")
        .format("parquet")
        .option("path", arguments.output)
        .trigger(**TRIGGERS[arguments.trigger])
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
