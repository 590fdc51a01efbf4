"""The events as they came."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession


@dp.table
def bronze() -> DataFrame:
    spark = SparkSession.active()
    return (
        spark.readStream.format("json")
        .schema("id long, shop string, amount double, bought_at timestamp")
        .option("maxFilesPerTrigger", 10)
        .load(spark.conf.get("medallion.events"))
    )
