"""Purchases with tax, as reports read them."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


@dp.table
def gold() -> DataFrame:
    purchases = SparkSession.active().readStream.table("silver")
    return purchases.select("id", "shop", "bought_at", (F.col("amount") * 1.19).alias("gross"))
