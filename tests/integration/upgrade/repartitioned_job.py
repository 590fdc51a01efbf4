"""Queries whose state Spark repartitions; the functions are called inside one shared Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

SCHEMA = "k STRING, v BIGINT, ts TIMESTAMP"
STORE = "spark.sql.streaming.stateStore"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORES: dict[str, dict[str, str]] = {
    "hdfs": {},
    "rocksdb": {f"{STORE}.providerClass": ROCKS},
    "changelog": {
        f"{STORE}.providerClass": ROCKS,
        f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    },
    "format2": {
        f"{STORE}.providerClass": ROCKS,
        f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{STORE}.checkpointFormatVersion": "2",
    },
}


def _source(spark: SparkSession, inputs: str, delay: str = "20 seconds") -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.json(inputs).withWatermark("ts", delay)


def _joined(spark: SparkSession, inputs: str, how: str) -> DataFrame:
    left = _source(spark, f"{inputs}/left").alias("a")
    right = _source(spark, f"{inputs}/right").alias("b")
    near = F.expr(
        "a.k = b.k AND b.ts >= a.ts - INTERVAL 10 SECONDS AND b.ts <= a.ts + INTERVAL 10 SECONDS"
    )
    return left.join(right, near, how).selectExpr("a.k AS k", "a.v AS v", "b.v AS w")


def _pandas_state(spark: SparkSession, inputs: str) -> DataFrame:
    def total(
        key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        before = state.get[0] if state.exists else 0
        state.update((before + sum(int(frame.v.sum()) for frame in frames),))
        yield pd.DataFrame({"k": [key[0]], "total": [state.get[0]]})

    grouped = _source(spark, f"{inputs}/left").groupBy("k")
    return grouped.applyInPandasWithState(
        total, "k STRING, total BIGINT", "total BIGINT", "update", GroupStateTimeout.NoTimeout
    )


def _processor(kind: str) -> Any:
    from pyspark.sql.streaming import StatefulProcessor

    class Totals(StatefulProcessor):
        def init(self, handle: Any) -> None:
            ttl = 3_600_000 if kind == "ttl" else None
            self.total = handle.getValueState("total", "total BIGINT", ttl)
            self.seen = handle.getListState("seen", "v BIGINT") if kind == "list" else None
            self.by = handle.getMapState("by", "p BIGINT", "n BIGINT") if kind == "map" else None

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            values = [int(v) for frame in rows for v in frame.v]
            before = self.total.get()[0] if self.total.exists() else 0
            self.total.update((before + sum(values),))
            told = 0
            if self.seen is not None:
                for value in values:
                    self.seen.appendValue((value,))
                told = len(list(self.seen.get()))
            if self.by is not None:
                for value in values:
                    known = (
                        self.by.getValue((value % 3,))
                        if self.by.containsKey((value % 3,))
                        else (0,)
                    )
                    self.by.updateValue((value % 3,), (known[0] + 1,))
                told = sum(one[0] for one in self.by.values())
            yield pd.DataFrame({"k": [key[0]], "total": [before + sum(values)], "n": [told]})

        def close(self) -> None:
            pass

    return Totals()


def _with_state(spark: SparkSession, inputs: str, kind: str) -> DataFrame:
    grouped = _source(spark, f"{inputs}/left").groupBy("k")
    return grouped.transformWithStateInPandas(
        statefulProcessor=_processor(kind),
        outputStructType="k STRING, total BIGINT, n BIGINT",
        outputMode="Update",
        timeMode="ProcessingTime" if kind == "ttl" else "None",
    )


def _window(spark: SparkSession, inputs: str) -> DataFrame:
    rows = _source(spark, f"{inputs}/left")
    return rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v"), F.count("*"))


def _chained(spark: SparkSession, inputs: str) -> DataFrame:
    return (
        _window(spark, inputs)
        .withColumnRenamed("count(1)", "n")
        .groupBy(F.window("window", "20 seconds"))
        .agg(F.sum("n"))
    )


Shape = Callable[[SparkSession, str], DataFrame]
SHAPES: dict[str, tuple[str, Shape]] = {
    "aggregate": ("update", lambda s, i: _source(s, f"{i}/left").groupBy("k").agg(F.sum("v"))),
    "window": ("append", _window),
    "session": (
        "append",
        lambda s, i: (
            _source(s, f"{i}/left").groupBy(F.session_window("ts", "3 seconds"), "k").count()
        ),
    ),
    "dedup": ("append", lambda s, i: _source(s, f"{i}/left").dropDuplicates(["k", "v"])),
    "dedup_watermark": (
        "append",
        lambda s, i: _source(s, f"{i}/left").dropDuplicatesWithinWatermark(["k"]),
    ),
    "join_inner": ("append", lambda s, i: _joined(s, i, "inner")),
    "join_left": ("append", lambda s, i: _joined(s, i, "left")),
    "pandas_state": ("update", _pandas_state),
    "with_state_value": ("update", lambda s, i: _with_state(s, i, "value")),
    "with_state_list": ("update", lambda s, i: _with_state(s, i, "list")),
    "with_state_map": ("update", lambda s, i: _with_state(s, i, "map")),
    "with_state_ttl": ("update", lambda s, i: _with_state(s, i, "ttl")),
    "chained": ("append", _chained),
    "limit": ("append", lambda s, i: _source(s, f"{i}/left").select("k", "v").limit(60)),
    "stateless": ("append", lambda s, i: _source(s, f"{i}/left").select("k", "v")),
}


def run(
    spark: SparkSession,
    shape: str,
    store: str,
    inputs: str,
    checkpoint: str,
    output: str,
    partitions: int,
    sink: str = "function",
) -> list[int]:
    """Read all that is there; return the batches that ran and the partitions of the newest plan."""
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    for key, value in STORES[store].items():
        spark.conf.set(key, value)
    mode, made = SHAPES[shape]
    Path(output).mkdir(parents=True, exist_ok=True)

    def write(frame: DataFrame, batch: int) -> None:
        rows = sorted(json.dumps(row.asDict(True), default=str) for row in frame.collect())
        if rows:
            Path(output, f"{batch:05}.json").write_text("\n".join(rows))

    writer = made(spark, inputs).writeStream.outputMode(mode).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", checkpoint)
    writer = writer.foreachBatch(write) if sink == "function" else writer.format("json")
    query = (writer if sink == "function" else writer.option("path", output)).start()
    query.awaitTermination()
    return [one["batchId"] for one in query.recentProgress]


def repartition(spark: SparkSession, checkpoint: str, partitions: int, store: str) -> list[str]:
    """Do it as the job of an upgrade does; return Spark's condition and sentence, empty when done."""
    from airflow_streaming.driver.jobs.repartition import answered
    from airflow_streaming.model.jobs.upkeep import RepartitionOrder

    for key, value in STORES[store].items():
        spark.conf.set(key, value)
    order = RepartitionOrder(
        checkpoints=(checkpoint,), partitions=partitions, answer="", seconds=600.0
    )
    answer = answered(spark, order)
    return [answer.condition, answer.failed]
