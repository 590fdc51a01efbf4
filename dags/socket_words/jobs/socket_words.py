"""
Word count over a socket: a source that cannot be replayed, and the failure that follows from it.

    python -m demo.feeds mentions --socket 9999        # in one terminal
    spark-submit socket_words.py --port 9999           # in another

A batch takes four seconds on purpose, so that a kill is likely to interrupt one.
"""

from __future__ import annotations

import argparse
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SECONDS_PER_BATCH = 4.0


def show(words: DataFrame, batch: int) -> None:
    """Print the table into the driver's log, slowly."""
    time.sleep(SECONDS_PER_BATCH)
    words.orderBy(F.desc("count")).show()


def main() -> None:
    """Start the query and wait for it."""
    parser = argparse.ArgumentParser(description="Word count over a socket.")
    parser.add_argument("--port", type=int, required=True, help="socket of 127.0.0.1 to read from")
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("socket_words").getOrCreate()
    options = {"host": "127.0.0.1", "port": str(arguments.port)}
    lines = spark.readStream.format("socket").options(**options).load()
    words = lines.select(F.explode(F.split(F.lower("value"), r"[^a-z#]+")).alias("word"))
    query = (
        words.where("word != ''")
        .groupBy("word")
        .count()
        .writeStream.queryName("words")
        .outputMode("complete")
        .foreachBatch(show)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
