"""
The first stream: how often each word came, from a folder of text files, shown every five seconds.

    python -m demo.feeds mentions --folder /tmp/mentions      # in one terminal
    spark-submit word_count.py --input /tmp/mentions          # in another

Files can be read again, so a restarted stream continues. The console and memory sinks keep nothing
(see the README beside this folder).
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def words(lines: DataFrame) -> DataFrame:
    """Count the words; hash tags are words."""
    return (
        lines.select(F.explode(F.split(F.lower("value"), r"[^a-z#]+")).alias("word"))
        .where("word != ''")
        .groupBy("word")
        .count()
    )


def main() -> None:
    """Start the query and wait for it."""
    parser = argparse.ArgumentParser(description="Word count.")
    parser.add_argument("--input", required=True, help="folder of text files")
    parser.add_argument("--sink", choices=("console", "memory"), default="console")
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("word_count").getOrCreate()
    lines = spark.readStream.option("maxFilesPerTrigger", 100).text(arguments.input)
    query = (
        words(lines)
        .writeStream.queryName("words")
        .outputMode("complete")
        .format(arguments.sink)
        .trigger(processingTime="5 seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
