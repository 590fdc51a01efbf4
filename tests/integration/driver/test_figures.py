"""The figures of real batches, and whether a long batch is at work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_streaming.model.status import QueryStatus
from tests.integration.driver.running import LAYOUT, Driver, World, lines

RECENT = 20
"""Batches whose durations a status tells."""

STATEFUL = """
import json
import os
from pyspark.sql import functions as F

spark.conf.set("spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
inbox = folder / "in box"
inbox.mkdir()

def put(number, first):
    rows = [{"t": first + row, "k": row % 5, "v": row} for row in range(20)]
    text = "".join(json.dumps(row) + "\\n" for row in rows)
    file = inbox / f"{number:03} events.json"
    file.write_text(text)
    os.utime(file, (1_700_000_000 + number,) * 2)  # files of one age are read in any order

for number in range(40):
    put(number, 1_700_000_000 + 3_600 * number if number != 3 else 1_600_000_000)
events = (spark.readStream.schema("t long, k long, v long")
    .option("maxFilesPerTrigger", 1).option("latestFirst", "false").json(str(inbox))
    .withColumn("at", F.timestamp_seconds("t"))
    .observe("quality", F.count(F.lit(1)).alias("rows"), F.lit("x").alias("word"))
    .withWatermark("at", "10 seconds"))
query = (events.groupBy(F.window("at", "1 minute"), "k").count()
    .writeStream.format("noop").outputMode("update").queryName("q")
    .trigger(processingTime="3 seconds").start())
"""


def test_a_stateful_query_tells_all_its_figures(world_on_each_spark: World) -> None:
    world = world_on_each_spark
    driver = world.run(STATEFUL)
    driver.has_committed(3)

    def counted() -> QueryStatus | None:
        query = driver.query("q")
        if query is None or query.progress is None or query.batches < 6:
            return None
        return query if query.progress.sources[0].backlog_files is not None else None

    query = driver.until(counted, "A count of the files that wait")
    progress = query.progress
    source = progress.sources[0]
    assert source.source == f"FileStreamSource[file:{world.folder}/in box]"
    assert source.input_rows == 20
    assert 40 - query.batches - 12 <= source.backlog_files <= 40
    assert source.end_offset == f'{{"logOffset":{progress.batch_id}}}'
    assert query.processing_interval_s == 3
    assert len(query.recent_durations_ms) == min(query.batches, RECENT)
    assert query.recent_durations_ms[-1] == progress.duration_ms
    assert query.committed_ago_s >= 0
    assert progress.observed == {"quality.rows": 20}
    assert progress.watermark_delay_s > 1_000_000
    assert progress.state_rows > 0
    assert progress.state_bytes > 0
    assert progress.state_commit_ms > 0

    driver.request_stop()
    assert driver.ended() == 0
    rows = lines(world.home / LAYOUT.progress(1) / "000001.jsonl")
    assert sum(row["dropped_rows"] for row in rows) >= 5
    shares = [share for row in rows if (share := row["cache_miss_share"]) is not None]
    assert shares
    assert all(0 <= share <= 1 for share in shares)


LONG_BATCHES = """
from pyspark.sql.functions import udf

def burn_until(path):
    import time
    from pathlib import Path
    while not Path(path).exists():
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            sum(range(1000))

burn = udf(lambda path: burn_until(path), "string")

def write(batch, number):
    go = folder / f"go{number}"
    if number == 1:
        while not go.exists():
            time.sleep(0.2)
    if number == 2:
        burn_until(go)
    if number == 3:
        one = spark.createDataFrame([(str(go),)], "path string").coalesce(1)
        one.select(burn("path")).write.format("noop").mode("overwrite").save()

query = (source().writeStream.foreachBatch(write).queryName("q")
    .trigger(processingTime="500 milliseconds").start())
"""


def seen_in_batch(
    driver: Driver, number: int, is_enough: Callable[[QueryStatus], bool]
) -> QueryStatus:
    """Watch a batch until its status tells enough; return that status and let the batch end."""

    def seen() -> QueryStatus | None:
        query = driver.query("q")
        if query is None or query.planned_batch != number or query.batch_for_s is None:
            return None
        return query if query.quiet_for_s is not None and is_enough(query) else None

    found: QueryStatus = driver.until(seen, f"Enough of batch {number}")
    (driver.world.folder / f"go{number}").touch()
    return found


def is_quiet(query: QueryStatus) -> bool:
    """Tell whether a batch was in work for long, of late without a sign of it."""
    return query.quiet_for_s >= 8


def is_at_work(query: QueryStatus) -> bool:
    """Tell whether a batch is in work for longer than it could be so without a sign of it."""
    # A new Python worker is known to be the driver's after ten seconds at most.
    return query.batch_for_s >= 18 and query.quiet_for_s <= 5


@pytest.mark.nightly("Batches wait for a minute.")
def test_a_batch_that_waits_is_quiet_and_one_that_computes_is_not(world: World) -> None:
    driver = world.run(LONG_BATCHES)
    waiting = seen_in_batch(driver, 1, is_quiet)
    seen_in_batch(driver, 2, is_at_work)
    in_a_task = seen_in_batch(driver, 3, is_at_work)

    assert waiting.active_tasks == 0
    assert in_a_task.active_tasks == 1
    driver.has_committed(5)


IN_WORK = """
import json
import os
from airflow_streaming.driver.sources.file_backlog import files_waiting

inbox = folder / "in"
inbox.mkdir()

def put(name, written):
    (inbox / name).write_text(json.dumps({"k": name}) + "\\n")
    os.utime(inbox / name, (written, written))

def work(rows, number):
    while number == 1 and not (folder / "go").exists():
        time.sleep(0.1)

def until(condition):
    while not condition():
        time.sleep(0.2)

def look(name):
    ends = {one["description"]: one["endOffset"] for one in query.lastProgress["sources"]}
    (waiting,) = files_waiting(query._jsq, ends, lambda: 9_000.0).values()
    with (folder / "looks").open("a") as out:
        print(json.dumps([name, waiting.files, waiting.oldest, waiting.read_until]), file=out)

put("a.json", 1_000)
query = (spark.readStream.schema("k string").option("maxFilesPerTrigger", 1).json(str(inbox))
    .writeStream.foreachBatch(work).queryName("q").trigger(processingTime="100 milliseconds").start())
until(lambda: query.lastProgress is not None and query.lastProgress["batchId"] == 0)
until(lambda: "Waiting" in query.status["message"])
look("committed")
put("b.json", 2_000)
put("c.json", 3_000)
planned = lambda: [one.read_text() for one in (folder / "home").rglob("sources/0/1")]
until(lambda: query.status["message"] == "Processing new data" and "b.json" in str(planned()))
look("in work")
(folder / "go").touch()
until(lambda: query.lastProgress["batchId"] == 2 and "Waiting" in query.status["message"])
look("all committed")
query.stop()
"""


@pytest.mark.nightly("A driver of its own on each Spark.")
def test_a_file_of_the_batch_in_work_is_unread(world_on_each_spark: World) -> None:
    world = world_on_each_spark
    driver = world.run(IN_WORK)

    assert driver.ended() == 0, driver.log
    assert lines(world.folder / "looks") == [
        ["committed", 0, None, 9_000.0],
        ["in work", 1, 2_000.0, 2_000.0],
        ["all committed", 0, None, 9_000.0],
    ]
