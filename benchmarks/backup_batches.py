"""
What does a backup every 30 seconds cost the query that is backed up?

One stateful query (RocksDB with changelog) runs a batch a second in one driver. Minutes in which a
backup is taken at their beginning and in their middle take turns with minutes of rest, so that a
slow quarter of an hour meets both. The time of a batch is Spark's own ``triggerExecution``; the
medians over all batches of either sort are compared, and beside them those of the minutes of rest
among themselves, which is the noise.

    python -m benchmarks.backup_batches --pairs 4

Goal: at most 3 % worse.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Final

from benchmarks.backup_tools import run
from benchmarks.figures import machine
from benchmarks.listener import REPOSITORY

GOAL_PERCENT: Final = 3.0
MINUTE: Final = 60.0
STARTED_WITHIN: Final = 180.0
WARM_UP: Final = 30
"""Batches of a fresh JVM that are left out."""

SCRIPT: Final = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession

checkpoint, told, stop = map(Path, sys.argv[1:])
spark = (SparkSession.builder
    .config("spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    .config("spark.sql.streaming.numRecentProgressUpdates", 10000)
    .getOrCreate())
rows = (spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5000)
    .option("numPartitions", 2).load().selectExpr("value % 20000 AS key").groupBy("key").count())
query = (rows.writeStream.outputMode("update").format("noop").queryName("q")
    .option("checkpointLocation", str(checkpoint)).trigger(processingTime="1 second").start())
while not stop.exists() and query.isActive:
    time.sleep(0.5)
query.stop()
told.write_text("\\n".join(progress.json() for progress in query._jsq.recentProgress()))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3")
    parser.add_argument("--pairs", type=int, default=4, help="minutes with backups, and without")
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="airflow-streaming-bench-") as made:
        folder = Path(made)
        driver = _start(folder, arguments.runtime.absolute())
        try:
            _await_batches(folder / "checkpoint", driver, WARM_UP)
            minutes = [_minute(folder, backed=turn % 2 == 1) for turn in range(2 * arguments.pairs)]
        finally:
            (folder / "stop").touch()
            driver.wait(timeout=STARTED_WITHIN)
        return _tell((folder / "told.jsonl").read_text(), minutes)


def _start(folder: Path, runtime: Path) -> subprocess.Popen[bytes]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    [home] = runtime.glob("lib/python*/site-packages/pyspark")
    python = str(runtime / "bin" / "python")
    command = [
        *(str(home / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=8"),
        *(str(script), str(folder / "checkpoint")),
        *(str(folder / "told.jsonl"), str(folder / "stop")),
    ]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }
    with (folder / "driver.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)


def _await_batches(checkpoint: Path, driver: subprocess.Popen[bytes], batches: int) -> None:
    deadline = time.monotonic() + STARTED_WITHIN
    while not (checkpoint / "commits" / str(batches)).exists():
        if time.monotonic() > deadline or driver.poll() is not None:
            sys.exit("The driver did not get going; see its log.")
        time.sleep(0.5)


def _minute(folder: Path, *, backed: bool) -> tuple[float, float, bool]:
    """Spend one minute, and return its beginning, its end and whether backups were taken."""
    begun = time.time()
    for half in (0.0, MINUTE / 2):
        time.sleep(max(0.0, begun + half - time.time()))
        if backed:
            _back_up(folder)
    time.sleep(max(0.0, begun + MINUTE - time.time()))
    return begun, time.time(), backed


def _back_up(folder: Path) -> None:
    module = ("-m", "airflow_streaming.cli.main", "checkpoint", "backup")
    begun = time.perf_counter()
    told = run(
        [
            sys.executable,
            *module,
            str(folder / "checkpoint"),
            "--to",
            str(folder / "store"),
            "--json",
        ]
    )
    taken = json.loads(told)
    print(
        f"backup of {taken['files']} files, {taken['added_files']} new: "
        f"{time.perf_counter() - begun:.1f} s with the start of the command",
        flush=True,
    )


def _tell(told: str, minutes: list[tuple[float, float, bool]]) -> int:
    batches = [
        (datetime.fromisoformat(p["timestamp"]).timestamp(), p["durationMs"]["triggerExecution"])
        for p in map(json.loads, told.splitlines())
        if "addBatch" in p["durationMs"]
    ]
    times = [
        ([ms for at, ms in batches if begin <= at < end], backed) for begin, end, backed in minutes
    ]
    resting = [taken for taken, backed in times if not backed]
    rest = statistics.median(ms for taken in resting for ms in taken)
    busy = statistics.median(ms for taken, backed in times if backed for ms in taken)
    spread = [statistics.median(taken) for taken in resting]
    worse = 100 * (busy / rest - 1)
    print(
        f"median batch: {rest:.0f} ms at rest (minutes {min(spread):.0f} to {max(spread):.0f} ms), "
        f"{busy:.0f} ms with a backup every 30 s: {worse:+.1f} % (goal at most {GOAL_PERCENT} %)"
    )
    return 0 if worse <= GOAL_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
