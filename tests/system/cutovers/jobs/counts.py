"""
What every shop sells in every second, and every line as it is: a plain Spark application that knows
nothing of cutovers.

With ``--queries counts,lines`` both are written, each into a folder of its own in the output.
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
from pyspark.sql.streaming import StreamingQuery

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


def each(lines: DataFrame) -> DataFrame:
    """Return every line once; nothing of it is state."""
    return lines.select(
        "id",
        "at",
        "shop",
        F.lit(1).alias("n"),
        F.col("amount").alias("total"),
    )


QUERIES = {"counts": counts, "lines": each}


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
    parser.add_argument("--queries", default="counts", help="names, with commas between them")
    parser.add_argument("--checkpoint", default="", help="for runs that nobody watches")
    return parser.parse_args()


def begin(name: str, lines: DataFrame, arguments: argparse.Namespace) -> StreamingQuery:
    """Start one of the queries."""
    output = arguments.output if name == arguments.queries else f"{arguments.output}/{name}"
    writer = (
        QUERIES[name](lines)
        .writeStream.queryName(name)
        .outputMode("append")
        .trigger(processingTime=TRIGGER)
    )
    if arguments.checkpoint:
        writer = writer.option("checkpointLocation", f"{arguments.checkpoint}/{name}")
    if arguments.sink == "ledger":
        return writer.foreachBatch(keep(output)).start()
    return writer.format("parquet").option("path", output).start()


def main() -> None:
    """Start the queries and wait for them."""
    arguments = parse_arguments()
    spark = SparkSession.builder.appName("counts").getOrCreate()
    lines = (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES).json(arguments.input)
    )
    for name in arguments.queries.split(","):
        begin(name, lines, arguments)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
