"""
Train the model of the scoring stream: is a reading one of a hot machine?

    python train_model.py --input /data/sensors --model /data/models/2026-01-05

A batch job. The readings of the past are labeled by a rule, where a real shop would have repairs.
"""

from __future__ import annotations

import argparse

from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import StandardScaler, VectorAssembler
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

READING = "id string, device string, temperature double, ts timestamp"


def labeled(readings: DataFrame, limit: int) -> DataFrame:
    """Call readings above a limit hot."""
    return readings.withColumn("label", (F.col("temperature") > limit).cast("double"))


def main() -> None:
    """Train, and write the model over an earlier one of the same name."""
    parser = argparse.ArgumentParser(description="Train a model on readings.")
    parser.add_argument("--input", required=True, help="folder of JSON lines")
    parser.add_argument("--model", required=True, help="folder of the model")
    parser.add_argument("--limit", type=int, default=66_000)
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("train_model").getOrCreate()
    readings = spark.read.schema(READING).json(arguments.input).where("id is not null")
    steps = [
        VectorAssembler(inputCols=["temperature"], outputCol="raw"),
        StandardScaler(inputCol="raw", outputCol="features", withMean=True),
        LogisticRegression(maxIter=10, regParam=0.01),
    ]
    model = Pipeline(stages=steps).fit(labeled(readings, arguments.limit).repartition(1, "id"))
    model.write().overwrite().save(arguments.model)
    spark.stop()


if __name__ == "__main__":
    main()
