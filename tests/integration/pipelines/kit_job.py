"""A script with habits that a shared Spark must survive."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def settings(spark, *keys):
    """Return what a session says of some settings."""
    return [spark.conf.get(key, "unset") for key in keys]


def main():
    kind, folder = sys.argv[1:3]
    spark = SparkSession.builder.appName("kit_job").config("spark.sql.leaked", "yes").getOrCreate()
    lines = spark.readStream.text(folder)
    lines.createOrReplaceTempView("leaked")
    query = lines.writeStream.queryName("lines").format("memory").start()
    if kind == "raises":
        raise KeyError("of the script")
    if kind == "exits":
        sys.exit(3)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
