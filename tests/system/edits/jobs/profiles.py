"""What every user has spent, and on what, in named variables of state."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

EVENT = "id string, user string, kind string, shop string, amount long, price double, ts timestamp"


def keep(folder):
    """Return a function that writes a batch over what an earlier attempt at it wrote."""

    def write(batch, number):
        rows = [row.asDict(recursive=True) for row in batch.collect()]
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"batch-{number}.json").write_text(json.dumps(rows, default=str))

    return write


class Profile(StatefulProcessor):
    """Spent so far, and how often every kind was bought."""

    def init(self, handle):
        self._spent = handle.getValueState("spent", "amount long")
        self._kinds = handle.getMapState("kinds", "kind string", "number long")

    def handleInputRows(self, key, rows, timers):
        spent = self._spent.get()[0] if self._spent.exists() else 0
        for frame in rows:
            spent += int(frame["amount"].sum())
            for kind in frame["kind"]:
                at = (str(kind),)
                before = self._kinds.getValue(at)[0] if self._kinds.containsKey(at) else 0
                self._kinds.updateValue(at, (before + 1,))
        self._spent.update((spent,))
        bought = sum(number[0] for number in self._kinds.values())
        yield pd.DataFrame({"user": [key[0]], "spent": [spent], "bought": [bought]})

    def close(self):
        """Nothing is held."""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("profiles").getOrCreate()
    events = (
        spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")
    )
    profiles = events.groupBy("user").transformWithStateInPandas(
        Profile(),
        outputStructType="user string, spent long, bought long",
        outputMode="Update",
        timeMode="None",
    )
    query = (
        profiles.writeStream.queryName("profiles")
        .option("checkpointLocation", args.checkpoint)
        .outputMode("update")
        .foreachBatch(keep(args.output))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
