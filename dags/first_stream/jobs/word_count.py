"""
The first stream: how often each word came over a socket, shown every five seconds.

    python -m demo.feeds mentions --socket 9999        # in one terminal
    spark-submit word_count.py --port 9999             # in another

Good for learning, and not for production: a socket cannot send again what a restart lost, and the
console and memory sinks keep nothing (see the README beside this folder).
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
    parser.add_argument("--port", type=int, help="socket of 127.0.0.1 to read from")
    parser.add_argument("--input", help="folder of text files, instead of the socket")
    parser.add_argument("--sink", choices=("console", "memory"), default="console")
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("word_count").getOrCreate()
    if arguments.input:
        lines = spark.readStream.text(arguments.input)
    else:
        options = {"host": "127.0.0.1", "port": str(arguments.port)}
        lines = spark.readStream.format("socket").options(**options).load()
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
