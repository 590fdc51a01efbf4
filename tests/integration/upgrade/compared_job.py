"""
Three queries of which another version is compared with this one.

    spark-submit compared_job.py INPUT CHECKPOINTS
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("compared").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "2")
spark.conf.set("spark.sql.session.timeZone", "UTC")
folder, checkpoints = sys.argv[1:]
reader = spark.readStream.schema("k STRING, v BIGINT, ts TIMESTAMP")
events = reader.option("maxFilesPerTrigger", 1).json(folder)


def start(rows: DataFrame, name: str, mode: str) -> None:
    writer = rows.writeStream.queryName(name).outputMode(mode).format("noop")
    writer.trigger(availableNow=True).option(
        "checkpointLocation", f"{checkpoints}/{name}"
    ).start().awaitTermination()


start(events.groupBy("k").agg(F.sum("v")), "sums", "update")
window = F.window("ts", "10 seconds")
start(
    events.withWatermark("ts", "10 seconds").groupBy(window, "k").agg(F.sum("v")),
    "windows",
    "append",
)
start(events.selectExpr("k", "v * 2 AS w"), "plain", "append")
