"""
The queries of ``live_backups``: runs in a Spark runtime, told by lines of JSON what to do.

Only pyspark is needed. A query reads all its input one file a batch and ends by itself. Its output
is one JSON file a batch, or a real file sink. The same query, told to go on from a copy of the
checkpoint, takes larger batches, so that a state which is not right shows in the totals.
"""

# mypy: ignore-errors
# ruff: noqa: T201 - a program of another Python, without the annotations of pyspark

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

ROWS = "k string, id long, v long, ts timestamp"
PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."
LATE = "10 seconds"


def main():
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.minBatchesToRetain", "8")
        .config("spark.sql.streaming.stateStore.minDeltasForSnapshot", "4")
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "1s")
        .config("spark.sql.streaming.fileSource.log.cleanupDelay", "2s")
        .config("spark.sql.streaming.fileSink.log.cleanupDelay", "2s")
        .config("spark.sql.adaptive.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    tell(ready=spark.version)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "start":
            running = [start(spark, query) for query in order["queries"]]
            tell(started=[query.name for query in running])
            for query in running:
                query.awaitTermination()
            tell(ended=True)
        else:
            tell(continued=go_on(spark, order["query"]))


def tell(**what):
    print("@" + json.dumps(what), flush=True)


def go_on(spark, order):
    begun = time.monotonic()
    try:
        start(spark, order).awaitTermination()
    except Exception as err:  # noqa: BLE001 - Spark's errors have no common base
        return {"error": told(err), "seconds": time.monotonic() - begun}
    return {"seconds": time.monotonic() - begun}


def told(err):
    """Return the lines of a long trace that say what was wrong."""
    lines = [line.strip() for line in str(err).splitlines()]
    telling = [line for line in lines if "Caused by" in line or line.startswith("[")]
    return " | ".join(telling[:2] + telling[-4:])[:1500]


def start(spark, order):
    store = order["store"]
    name = "HDFSBackedStateStoreProvider" if store == "hdfs" else "RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDERS + name)
    with_changelog = store in ("changelog", "format2")
    spark.conf.set(ROCKSDB + "changelogCheckpointing.enabled", str(with_changelog).lower())
    spark.conf.set(
        "spark.sql.streaming.stateStore.checkpointFormatVersion", "2" if store == "format2" else "1"
    )
    frame, mode = SHAPES[order["shape"]](spark, order)
    writer = frame.writeStream.queryName(order["name"]).outputMode(mode)
    writer = writer.option("checkpointLocation", order["checkpoint"]).trigger(availableNow=True)
    if order["shape"] == "files":
        return writer.format("json").option("path", order["output"]).start()
    return writer.foreachBatch(keeper(Path(order["output"]))).start()


def keeper(folder):
    folder.mkdir(parents=True, exist_ok=True)

    def keep(batch, number):
        rows = [[str(value) for value in row] for row in batch.collect()]
        (folder / f"{number}.json").write_text(json.dumps(rows))

    return keep


def stream(spark, order, name):
    return (
        spark.readStream.schema(ROWS)
        .option("maxFilesPerTrigger", order["files_a_batch"])
        .json(f"{order['input']}/{name}")
    )


def agg(spark, order):
    rows = stream(spark, order, "a").withWatermark("ts", LATE)
    windows = rows.groupBy(f.window("ts", LATE), "k").agg(f.count("*"), f.sum("v"))
    return windows.selectExpr("window.start", "k", "`count(1)`", "`sum(v)`"), "update"


def dedup(spark, order):
    rows = stream(spark, order, "a").withWatermark("ts", LATE)
    return rows.dropDuplicates(["id", "ts"]).select("id", "k"), "append"


def join(spark, order):
    left = stream(spark, order, "a").withWatermark("ts", LATE).alias("l")
    right = stream(spark, order, "b").withWatermark("ts", LATE).alias("r")
    near = f.expr("l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 10 SECONDS")
    return left.join(right, near).selectExpr("l.id", "l.v + r.v"), "append"


def state(spark, order):
    rows = stream(spark, order, "a")
    if spark.version.startswith("3."):
        return apply_state(rows), "update"
    return transform_with_state(rows), "update"


def apply_state(rows):
    import pandas
    from pyspark.sql.streaming.state import GroupStateTimeout

    def count(key, frames, kept):
        total = kept.get[0] if kept.exists else 0
        total += sum(int(frame["v"].sum()) for frame in frames)
        kept.update((total,))
        yield pandas.DataFrame({"k": [key[0]], "total": [total]})

    return rows.groupBy("k").applyInPandasWithState(
        count, "k string, total long", "total long", "update", GroupStateTimeout.NoTimeout
    )


def transform_with_state(rows):
    import pandas
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Totals(StatefulProcessor):
        def init(self, handle):
            self.total = handle.getValueState("total", "total long")
            self.seen = handle.getMapState("seen", "bucket long", "count long")

        def handleInputRows(self, key, frames, timers):
            total = self.total.get()[0] if self.total.exists() else 0
            for frame in frames:
                total += int(frame["v"].sum())
                for number in frame["id"]:
                    bucket = (int(number) % 5,)
                    before = self.seen.getValue(bucket)[0] if self.seen.containsKey(bucket) else 0
                    self.seen.updateValue(bucket, (before + 1,))
            self.total.update((total,))
            seen = sum(count[0] for count in self.seen.values())
            yield pandas.DataFrame({"k": [key[0]], "total": [total], "seen": [seen]})

        def close(self):
            pass

    return rows.groupBy("k").transformWithStateInPandas(
        Totals(), "k string, total long, seen long", "Update", "None"
    )


def files(spark, order):
    return stream(spark, order, "a").select("k", "id"), "append"


SHAPES = {"agg": agg, "dedup": dedup, "join": join, "state": state, "files": files}

if __name__ == "__main__":
    main()
