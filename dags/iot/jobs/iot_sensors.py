"""
Sensors: readings a device and ten minutes, hot machines, and lines that cannot be read.

Three queries in one application. Readings that come up to two hours late are counted; later ones
are dropped and show up in the progress. Figures are whole numbers (thousandths of a degree), so
that sums do not depend on the order of the rows.

    spark-submit iot_sensors.py --input /data/sensors --output /data/iot
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

LATENESS = "2 hours"
READING = "id string, device string, temperature long, ts timestamp"


def parsed(lines: DataFrame) -> DataFrame:
    """Read JSON with the enforced schema; a line that does not fit has a null in ``reading``."""
    return lines.select("value", F.from_json("value", READING).alias("reading")).select(
        "value", F.when(F.col("reading.id").isNotNull(), F.col("reading")).alias("reading")
    )


def readings(lines: DataFrame) -> DataFrame:
    """Return every reading once, although some are sent twice."""
    return (
        parsed(lines)
        .where("reading is not null")
        .select("reading.*")
        .withWatermark("ts", LATENESS)
        .dropDuplicates(["id", "ts"])
    )


def counts(found: DataFrame) -> DataFrame:
    """Count the readings of every device and ten minutes."""
    window = F.window("ts", "10 minutes")
    return (
        found.groupBy(window, "device")
        .agg(F.count("*").alias("readings"), F.max("temperature").alias("hottest"))
        .select(F.col("window.start").alias("start"), "device", "readings", "hottest")
    )


def hot_machines(found: DataFrame) -> DataFrame:
    """
    Return devices with a reading in the last hour far above their usual readings.

    Far is more than three standard deviations above the mean of a rolling hour, that is (max -
    mean)^2 > 9 * variance, in whole numbers times n^2.
    """
    t = F.col("temperature")
    hour = (
        found.groupBy(F.window("ts", "1 hour", "10 minutes"), "device")
        .agg(
            F.count("*").alias("n"),
            F.sum(t).alias("total"),
            F.sum(t * t).alias("squares"),
            F.max(t).alias("hottest"),
        )
        .withColumn("off", F.col("hottest") * F.col("n") - F.col("total"))
        .withColumn("variance", F.col("n") * F.col("squares") - F.col("total") * F.col("total"))
    )
    return hour.where("n >= 5 and off > 0 and off * off > 9 * variance").select(
        F.col("window.start").alias("start"), "device", "n", "hottest"
    )


def main() -> None:
    """Start the queries and wait for them."""
    parser = argparse.ArgumentParser(description="Counts and alerts of sensors.")
    parser.add_argument("--input", required=True, help="folder of JSON lines")
    parser.add_argument("--output", required=True, help="folder of the three outputs")
    parser.add_argument("--trigger-seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.appName("iot_sensors")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(arguments.input)
    broken = parsed(lines).where("reading is null").select("value")
    outputs = {
        "counts": counts(readings(lines)),
        "alerts": hot_machines(readings(lines)),
        "broken": broken,
    }
    for name, frame in outputs.items():
        (
            frame.writeStream.queryName(name)
            .outputMode("append")
            .format("parquet")
            .option("path", f"{arguments.output}/{name}")
            .trigger(processingTime=f"{arguments.trigger_seconds} seconds")
            .start()
        )
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
