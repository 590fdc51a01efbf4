"""
Score readings with a model, by MLlib or by a pandas function.

    spark-submit score_readings.py --input /data/sensors --model /data/models/2026-01-05 --output ...

The model is part of the deployment: another model is another argument, and so another deployment,
which goes through a gate or a cutover. Every row names the model it was scored with.
"""

from __future__ import annotations

import argparse
from pathlib import PurePosixPath

import numpy as np
import pandas as pd
from pyspark.ml import PipelineModel
from pyspark.ml.functions import vector_to_array
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

READING = "id string, device string, temperature double, ts timestamp"


def with_mllib(readings: DataFrame, model: PipelineModel) -> DataFrame:
    """Score with the pipeline itself."""
    probability = vector_to_array("probability")[1]
    return model.transform(readings).withColumn("score", F.round(probability, 6))


def with_pandas(readings: DataFrame, model: PipelineModel) -> DataFrame:
    """Score with its three numbers in a pandas function, as a model of any other library would."""
    scaler, regression = model.stages[1], model.stages[2]
    mean, spread = float(scaler.mean[0]), float(scaler.std[0])
    weight, intercept = float(regression.coefficients[0]), float(regression.intercept)

    @F.pandas_udf("double")
    def score(temperature: pd.Series) -> pd.Series:
        logit = weight * (temperature - mean) / spread + intercept
        return (1 / (1 + np.exp(-logit))).round(6)

    return readings.withColumn("score", score("temperature"))


def main() -> None:
    """Start the query and wait for it."""
    parser = argparse.ArgumentParser(description="Score readings.")
    parser.add_argument("--input", required=True, help="folder of JSON lines")
    parser.add_argument("--model", required=True, help="folder of the model")
    parser.add_argument("--output", required=True)
    parser.add_argument("--by", choices=("mllib", "pandas"), default="mllib")
    parser.add_argument("--trigger-seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.appName("score_readings")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    readings = (
        spark.readStream.schema(READING).option("maxFilesPerTrigger", 2).json(arguments.input)
    ).where("id is not null")
    model = PipelineModel.load(arguments.model)
    scored = (with_pandas if arguments.by == "pandas" else with_mllib)(readings, model)
    name = PurePosixPath(arguments.model).name
    query = (
        scored.select("id", "device", "ts", "score", F.lit(name).alias("model"))
        .writeStream.queryName("scores")
        .format("parquet")
        .option("path", arguments.output)
        .trigger(processingTime=f"{arguments.trigger_seconds} seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
