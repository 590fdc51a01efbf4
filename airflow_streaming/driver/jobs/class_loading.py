"""
The driver that loads the classes of all drivers; its JVM archives them when it ends.

Small streams of the usual kinds select the classes, each run over a few rows to its end: JSON and
CSV files, a watermark and windows, deduplication and a join, both state stores, files and a Python
function as sinks. A class that the archive lacks is read from its jar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.errors import log_to_stderr, logger
from airflow_streaming.driver.jobs.drill import leave_after
from airflow_streaming.model.jobs.upkeep import ClassLoadingOrder

_SCHEMA: Final = "at TIMESTAMP, name STRING, amount DOUBLE"
_ROWS: Final = (
    '{"at": "2026-01-01T00:00:01", "name": "a", "amount": 1.5}\n'
    '{"at": "2026-01-01T00:20:00", "name": "b", "amount": 2.5}\n'
)
_PROVIDERS: Final = ("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")
_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_PACKAGE: Final = "org.apache.spark.sql.execution.streaming.state"


def run(arguments: Sequence[str]) -> int:
    """Run the streams of the order's folder to their end."""
    log_to_stderr()
    order = ClassLoadingOrder.from_bytes(Path(arguments[0]).read_bytes())
    leave_after(order.seconds, "Loading the classes")
    from pyspark.sql import SparkSession

    load_classes(SparkSession.builder.getOrCreate(), Path(order.folder))
    return 0


def load_classes(session: Any, folder: Path) -> None:
    """Run each kind of stream once, as far as this Spark can run it."""
    source = folder / "in"
    source.mkdir()
    (source / "1.json").write_text(_ROWS)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    for provider in _PROVIDERS:
        session.conf.set(_PROVIDER, f"{_PACKAGE}.{provider}")
        for name, started in _streams(session, source).items():
            place = folder / provider / name
            try:
                started(place).awaitTermination()
            except Exception:  # noqa: BLE001 - a Spark without it has no classes of it either
                logger.exception("The stream %s with %s did not run.", name, provider)


def _streams(session: Any, source: Path) -> dict[str, Callable[[Path], Any]]:
    from pyspark.sql import functions

    def read() -> Any:
        rows = session.readStream.schema(_SCHEMA).json(str(source))
        return rows.withWatermark("at", "1 minute")

    def to_files(rows: Any) -> Callable[[Path], Any]:
        return lambda place: _writer(rows, place).format("parquet").start(str(place / "out"))

    def to_function(rows: Any) -> Callable[[Path], Any]:
        return lambda place: (
            _writer(rows, place).foreachBatch(lambda batch, _: batch.count()).start()
        )

    window = functions.window("at", "10 minutes")
    sums = read().groupBy(window, "name").agg(functions.sum("amount"), functions.count("*"))
    other = read().select(functions.col("at").alias("then"), functions.col("name").alias("who"))
    near = functions.expr("name = who AND at BETWEEN then AND then + INTERVAL 5 MINUTES")
    return {
        "sums": to_files(sums),
        "once": to_files(read().dropDuplicates(["name", "at"])),
        "pairs": to_function(read().join(other, near)),
    }


def _writer(rows: Any, place: Path) -> Any:
    stream = rows.writeStream.trigger(availableNow=True)
    return stream.option("checkpointLocation", str(place / "checkpoint"))
