"""
The half of ``new_release`` that runs in Spark: a few streams to their end, and plans that Spark may refuse.

It uses nothing of this package, so that a Spark of any Python can run it.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STORE: Final = "spark.sql.streaming.stateStore."


def main() -> None:
    """Run the streams and the plans, and print what came of them."""
    from pyspark.sql import SparkSession

    folder = Path(sys.argv[1])
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    source = folder / "in"
    source.mkdir()
    (source / "1.json").write_text('{"k": "a", "v": 1, "ts": "2026-01-01T00:00:00"}\n')

    def rows() -> Any:
        return session.readStream.schema("k string, v bigint, ts timestamp").json(str(source))

    checkpoints = _checkpoints(session, rows, folder)
    plans = {
        name: _tried(made, folder / "plans" / name) for name, made in _plans(session, rows).items()
    }
    print("FOUND" + json.dumps({"checkpoints": checkpoints, "plans": plans}))
    session.stop()


def _checkpoints(session: Any, rows: Callable[[], Any], folder: Path) -> list[str]:
    """Return the folders of the streams that ran to their end."""
    kinds: dict[str, tuple[dict[str, str], Callable[[], tuple[Any, str]]]] = {
        "plain": ({}, lambda: (rows(), "append")),
        "counted": ({}, lambda: (rows().groupBy("k").count(), "update")),
        "format-2": (
            {f"{_STORE}providerClass": ROCKSDB, f"{_STORE}checkpointFormatVersion": "2"},
            lambda: (rows().groupBy("k").count(), "update"),
        ),
        "offsets-2": (
            {"spark.sql.streaming.offsetLog.formatVersion": "2"},
            lambda: (rows(), "append"),
        ),
    }
    found = []
    for name, (conf, made) in kinds.items():
        for key, value in conf.items():
            session.conf.set(key, value)
        if _tried(made, folder / name) == "runs":
            found.append(name)
        for key in conf:
            session.conf.unset(key)
    return found


def _plans(session: Any, rows: Callable[[], Any]) -> dict[str, Callable[[], tuple[Any, str]]]:
    """Return plans of which a release has once refused one, by name."""
    from pyspark.sql import functions as F

    table = session.range(3).select(F.col("id").cast("string").alias("k"))
    keys = lambda: rows().select("k")
    late = lambda: rows().withWatermark("ts", "1 minute")
    return {
        "except": lambda: (keys().subtract(table), "update"),
        "except all": lambda: (keys().exceptAll(table), "update"),
        "except of a table": lambda: (table.subtract(keys()), "update"),
        "intersect": lambda: (keys().intersect(table), "update"),
        "distinct": lambda: (keys().distinct(), "append"),
        "sort": lambda: (keys().orderBy("k"), "append"),
        "limit": lambda: (keys().limit(1), "append"),
        "aggregation without a watermark": lambda: (rows().groupBy("k").count(), "append"),
        "aggregation of an aggregation": lambda: (
            late().groupBy(F.window("ts", "1 minute")).count().groupBy("window").count(),
            "append",
        ),
        "count distinct": lambda: (rows().groupBy("k").agg(F.count_distinct("v")), "update"),
        "join of a stream on its right": lambda: (table.join(keys(), "k", "left"), "append"),
        "outer join without a watermark": lambda: (keys().join(keys(), "k", "left"), "append"),
        "window function": lambda: (
            rows().selectExpr("k", "row_number() over (partition by k order by v) n"),
            "append",
        ),
    }


def _tried(made: Callable[[], tuple[Any, str]], checkpoint: Path) -> str:
    try:
        frame, mode = made()
        query = (
            frame.writeStream.format("noop")
            .outputMode(mode)
            .trigger(availableNow=True)
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        query.awaitTermination(60)
        query.stop()
    except Exception as err:  # noqa: BLE001 - every refusal is an answer
        for method in ("getCondition", "getErrorClass"):
            ask = getattr(err, method, None)
            if ask is not None and ask():
                return str(ask())
        return type(err).__name__
    return "runs"


if __name__ == "__main__":
    main()
