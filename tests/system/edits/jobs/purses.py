"""What every user has spent so far, in a state of the author's own."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"


def keep(folder):
    """Return a function that writes a batch over what an earlier attempt at it wrote."""

    def write(batch, number):
        rows = [row.asDict(recursive=True) for row in batch.collect()]
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"batch-{number}.json").write_text(json.dumps(rows, default=str))

    return write


def spend(key, frames, state):
    """Add what came to what there was."""
    kept = state.get if state.exists else (0,)
    spent = kept[0]
    for frame in frames:
        spent += int(frame["amount"].sum())
    state.update((spent,))
    yield pd.DataFrame({"user": [key[0]], "spent": [spent]})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("purses").getOrCreate()
    events = (
        spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")
    )
    purses = events.groupBy("user").applyInPandasWithState(
        spend,
        outputStructType="user string, spent long",
        stateStructType="spent long",
        outputMode="update",
        timeoutConf=GroupStateTimeout.NoTimeout,
    )
    query = (
        purses.writeStream.queryName("purses")
        .option("checkpointLocation", args.checkpoint)
        .outputMode("update")
        .foreachBatch(keep(args.output))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
