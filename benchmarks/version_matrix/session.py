"""
One session of one Spark: continues many checkpoints, several at a time.

``python session.py ORDERS RESULTS``: reads orders, one JSON a line, and appends one result a line
as soon as it is known. Run by the Python of a Spark runtime.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from shapes import SHAPES

AT_ONCE = 4
MOST_SECONDS = 180
MOST_SECONDS_ALONE = 60

ALONE = "transform_with_state"
"""
How shapes begin that run by themselves: tasks of several such queries were seen to wait for each
other's Python workers for ever.
"""

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
# What a release without conditions tells by.
_CLASS = re.compile(r"\b[A-Z]\w+(?:Exception|Error|NotCompatible)\b")
_SESSION_CONF = {
    "spark.master": "local[2]",
    "spark.app.name": "version-matrix",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    # Many short queries: they end before a thorough compiler is worth its time, and Hadoop starts
    # a process for the permissions of every file.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
    ),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # So that snapshots are among what the next Spark reads.
    "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
}


def main(orders: Path, results: Path) -> None:
    builder = SparkSession.builder
    for key, value in _SESSION_CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    lock = threading.Lock()

    def do(order: dict[str, Any]) -> None:
        result = {"run": order["run"], "spark": spark.version, **run(spark, order)}
        with lock, results.open("a", encoding="utf-8") as out:
            out.write(json.dumps(result) + "\n")

    given = [json.loads(line) for line in orders.read_text(encoding="utf-8").splitlines()]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(do, (order for order in given if not _is_alone(order))))
    for order in given:
        if _is_alone(order):
            do(order)
    spark.stop()


def run(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    began = time.monotonic()
    own = spark.newSession()
    for key, value in {**_sql_conf(), **order["conf"]}.items():
        own.conf.set(key, value)
    try:
        found = _go_on(own, order)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what is measured
        found = _failure(error)
    return {**found, "seconds": round(time.monotonic() - began, 2)}


def _is_alone(order: dict[str, Any]) -> bool:
    return str(order["shape"]).startswith(ALONE)


def _sql_conf() -> dict[str, str]:
    return {k: v for k, v in _SESSION_CONF.items() if k.startswith("spark.sql.")}


def _go_on(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    folder, shape = Path(order["folder"]), SHAPES[order["shape"]]
    batches: dict[str, list[str]] = {}
    writer = shape.rows(spark, folder / "input").writeStream.outputMode(shape.mode)
    writer = writer.option("checkpointLocation", (folder / "checkpoint").as_uri())
    writer = writer.trigger(availableNow=True)
    if shape.to_files:
        writer = writer.format("json").option("path", (folder / "sink").as_uri())
    else:
        writer = writer.foreachBatch(_keeper(batches))
    query = writer.start()
    alone = _is_alone(order)
    if not query.awaitTermination(MOST_SECONDS_ALONE if alone else MOST_SECONDS):
        query.stop()
        # Beside others a query may have waited for them; alone it really hangs.
        condition = "NO_END" if alone else "TIMEOUT"
        return {"ok": False, "conditions": [condition], "message": "It came to no end."}
    if shape.to_files:
        batches["all"] = _texts(spark.read.json((folder / "sink").as_uri()))
    return {"ok": True, "batches": batches, "state": _state_rows(query)}


def _keeper(batches: dict[str, list[str]]) -> Callable[[DataFrame, int], None]:
    def keep(rows: DataFrame, batch: int) -> None:
        batches[str(batch)] = _texts(rows)

    return keep


def _texts(rows: DataFrame) -> list[str]:
    names = sorted(rows.columns)
    return sorted(str([(name, row[name]) for name in names]) for row in rows.collect())


def _state_rows(query: Any) -> list[int]:
    last = query.lastProgress
    told = json.loads(last.json) if hasattr(last, "json") else last or {}
    return [operator["numRowsTotal"] for operator in told.get("stateOperators", ())]


def _failure(error: Exception) -> dict[str, Any]:
    text = str(error)
    found = list(dict.fromkeys(_CONDITION.findall(text)))
    classes = list(dict.fromkeys(_CLASS.findall(text)))
    return {
        "ok": False,
        "conditions": found,
        "classes": classes[-5:],
        "message": text[:1500] + " [...] " + text[-1500:],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
