"""Valid purchases, each once within an hour."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession


@dp.table
def silver() -> DataFrame:
    events = SparkSession.active().readStream.table("bronze").where("amount > 0")
    return events.withWatermark("bought_at", "1 hour").dropDuplicatesWithinWatermark(["id"])
