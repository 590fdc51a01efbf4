"""Numbers without end into a folder, one batch every five seconds. What the restart benchmark restarts."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

parser = argparse.ArgumentParser()
parser.add_argument("--output", required=True)
parser.add_argument("--checkpoint", help="where the deployment gives none")
options = parser.parse_args()

spark = SparkSession.builder.config("spark.ui.enabled", False).getOrCreate()
numbers = (
    spark.readStream.format("rate-micro-batch")
    .option("rowsPerBatch", 100)
    .option("numPartitions", 1)
    .load()
)
query = (
    numbers.writeStream.queryName("numbers").format("parquet").trigger(processingTime="5 seconds")
)
if options.checkpoint:
    query = query.option("checkpointLocation", options.checkpoint)
query.start(options.output).awaitTermination()
