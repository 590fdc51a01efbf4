"""
What every shop sells in every second; a plain Spark application that knows nothing of cutovers.

With ``--sink ledger`` each batch becomes one file of JSON lines named by its batch id, and a batch
whose id is there already is passed over. With ``--sink parquet`` Spark's own file sink is used.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

DELAY = "1 second"
TRIGGER = "1 second"
FILES = 200
SCHEMA = "id long, at timestamp, shop string, amount long"


def counts(lines: DataFrame) -> DataFrame:
    """Count and sum up the lines of every second and shop."""
    return (
        lines.withWatermark("at", DELAY)
        .groupBy(F.window("at", "1 second"), "shop")
        .agg(
            F.count("*").alias("n"),
            F.sum("amount").alias("total"),
        )
        .select(
            F.unix_millis("window.start").alias("second"),
            F.col("window.start").alias("at"),
            "shop",
            "n",
            "total",
        )
    )


def keep(folder: str) -> Callable[[DataFrame, int], None]:
    """Return a function that writes each batch once, whatever is tried twice."""

    def write(batch: DataFrame, number: int) -> None:
        file = Path(folder) / f"{number:08}.json"
        if file.exists():
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        hidden = file.with_name(f".{file.name}.{os.getpid()}")
        hidden.write_text("\n".join(sorted(batch.toJSON().collect())))
        hidden.rename(file)

    return write


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--sink", choices=("ledger", "parquet"), required=True)
    parser.add_argument("--checkpoint", default="", help="for runs that nobody watches")
    return parser.parse_args()


def main() -> None:
    """Start the query and wait for it."""
    arguments = parse_arguments()
    spark = SparkSession.builder.appName("counts").getOrCreate()
    lines = (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES).json(arguments.input)
    )
    writer = (
        counts(lines)
        .writeStream.queryName("counts")
        .outputMode("append")
        .trigger(processingTime=TRIGGER)
    )
    if arguments.checkpoint:
        writer = writer.option("checkpointLocation", f"{arguments.checkpoint}/counts")
    if arguments.sink == "ledger":
        query = writer.foreachBatch(keep(arguments.output)).start()
    else:
        query = writer.format("parquet").option("path", arguments.output).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
