"""
What a beat of the driver costs for each query: asking Spark for progress, and timing the batches.

    PYTHONPATH=. <runtime>/bin/python benchmarks/beat.py

Prints milliseconds a beat and query, for queries that wait and for queries that work, and the CPU
time of the JVM while nothing happens, against which ``BUSY_SHARE`` must stand out.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_streaming.driver.jvm import CpuMeter
from airflow_streaming.driver.monitoring.activity import JobsView
from airflow_streaming.driver.monitoring.queries import Queries, TrackedQuery
from airflow_streaming.driver.monitoring.spark_query import SparkQuery
from airflow_streaming.model.status import CheckpointOrigin
from airflow_streaming.model.storage import LocalStore

QUERIES = 5
BEATS = 100


def track(query, folder: Path) -> TrackedQuery:
    return TrackedQuery(
        SparkQuery(query._jsq),
        name=query.name,
        id=str(query.id),
        run_id=str(query.runId),
        checkpoint=str(folder),
        files=LocalStore(str(folder)),
        origin=CheckpointOrigin.DEPLOYMENT,
        gated=False,
    )


def timed(work) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def measure(title: str, queries: Queries, jobs: JobsView, pause: float) -> None:
    polls, looks = [], []
    for _ in range(BEATS):
        polls.append(timed(queries.poll) / QUERIES)
        looks.append(timed(lambda: queries.time_work(jobs.look())) / QUERIES)
        time.sleep(pause)
    print(
        f"{title}: asking for progress {statistics.median(polls):.2f} ms, timing the batches "
        f"{statistics.median(looks):.2f} ms a beat and query (the most {max(looks):.2f} ms)"
    )


def start(spark, folder: Path, number: int, rows: int, interval: str):
    location = folder / f"{rows}-{number}"
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    counted = source.selectExpr("value % 100 AS k").groupBy("k").count() if rows > 1 else source
    query = (
        counted.writeStream.format("noop")
        .outputMode("update" if rows > 1 else "append")
        .queryName(f"q{rows}_{number}")
        .option("checkpointLocation", str(location))
        .trigger(processingTime=interval)
        .start()
    )
    return query, track(query, location)


def run(spark, folder: Path, rows: int, interval: str, title: str, meter: CpuMeter) -> None:
    queries, jobs = Queries(), JobsView(meter.seconds)
    started = [start(spark, folder, number, rows, interval) for number in range(QUERIES)]
    for _, tracked in started:
        queries.add(tracked)
    time.sleep(20)
    measure(title, queries, jobs, 0.05)
    if rows == 1:
        begun = meter.seconds()
        time.sleep(10)
        print(f"CPU time of JVM and Python at rest: {(meter.seconds() - begun) / 10:.3f} of a core")
    for query, _ in started:
        query.stop()


def main() -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    meter = CpuMeter(lambda: jvm)
    print(f"Spark {spark.version}, {QUERIES} queries, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        run(spark, Path(folder), 1, "1 hour", "waiting", meter)
        run(spark, Path(folder), 100_000, "0 seconds", "working all the time", meter)
    spark.stop()


if __name__ == "__main__":
    main()
