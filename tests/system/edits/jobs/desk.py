"""Two queries of one application: all sales, and the number of sales of every shop."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"


def keep(folder):
    """Return a function that writes a batch over what an earlier attempt at it wrote."""

    def write(batch, number):
        rows = [row.asDict(recursive=True) for row in batch.collect()]
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"batch-{number}.json").write_text(json.dumps(rows, default=str))

    return write


def start(frame, name, args, mode="append"):
    """Start one of the queries; its checkpoint and its output have its name."""
    return (
        frame.writeStream.queryName(name)
        .option("checkpointLocation", f"{args.checkpoint}/{name}")
        .outputMode(mode)
        .foreachBatch(keep(f"{args.output}/{name}"))
        .start()
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("desk").getOrCreate()
    events = (
        spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")
    )
    start(events.select("id", "amount"), "sales", args)
    start(events.groupBy("shop").count(), "shops", args, "update")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
