"""A driver that runs well, from its first sign of life to its last word."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest

from airflow_streaming.driver.monitoring.heartbeat import BEAT_SECONDS
from airflow_streaming.model.plan.text import step_text
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.status import CheckpointOrigin, DriverState
from tests.integration.driver.running import LAYOUT, Driver, World, lines

FILES_TO_PARQUET = """
from pyspark.sql.functions import udf

@udf("long")
def doubled(value):
    return value * 2

rows = source().select(doubled("value").alias("value"))
query = (rows.writeStream.format("parquet").queryName("q")
         .trigger(processingTime="200 milliseconds").start(str(folder / "out")))
print("ARGUMENTS", __name__, __file__, sys.argv[1:], sys.path[0])
assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None
"""

DOUBLED = r"python_udf\(value, evalType=10[01], func=[0-9a-f]{20}\): bigint AS value"


def check_plan(plan: QueryPlan, world: World) -> None:
    assert plan.notes == ()
    assert [source.source for source in plan.sources] == ["rate-micro-batch"]
    assert plan.sources[0].options == {"rowsperbatch": "5", "numpartitions": "1"}
    # It says how Spark evaluates the function and which body the function has, not its name.
    (step,) = plan.steps
    assert re.fullmatch(DOUBLED, step_text(step.tree))
    sink = plan.sink
    assert (sink.sink, sink.format, sink.target) == ("file", "parquet", f"{world.folder}/out")
    assert (plan.output_mode, plan.processing_trigger) == ("append", "200 milliseconds")
    assert plan.conf["spark.sql.streaming.stateStore.compression.codec"] == "lz4"


def test_a_script_without_await_termination_runs_is_watched_and_stops_on_request(
    world_on_each_spark: World,
) -> None:
    world = world_on_each_spark
    world.deploy(FILES_TO_PARQUET, fair_pools=True)
    world.begin_epoch()
    secret = world.folder / "private.conf"
    secret.write_text("spark.hadoop.fs.s3a.secret.key canary\n")
    (world.folder / "application").mkdir()
    driver = world.launch(1, "--properties-file", str(secret))

    driver.until(driver.status, "A first sign of life")
    driver.has_committed(3)
    assert not secret.exists()
    script = world.folder / "application" / "orders.py"
    told = f"ARGUMENTS __main__ {script} {[str(world.folder), 'orders']} {script.parent}"
    # Batches run in a thread of their own, and may be ahead of the script.
    driver.until(lambda: told in driver.log, "the script's arguments")

    status, query = driver.status(), driver.query("q")
    assert status is not None
    assert query is not None
    assert status.state is DriverState.RUNNING
    assert status.application_id
    assert status.application_id.startswith("local-")
    assert status.first_progress_at is not None
    assert query.checkpoint_origin is CheckpointOrigin.DEPLOYMENT
    assert query.checkpoint == f"file:{world.checkpoint()}"
    assert query.id == json.loads((world.checkpoint() / "metadata").read_text())["id"]
    assert json.loads(world.claim().read_text())["query_id"] == query.id
    plan = driver.until(
        lambda: world.store.read(LAYOUT.place(QueryPlan, epoch=1, query="q")), "A plan"
    )
    check_plan(QueryPlan.from_bytes(plan), world)

    driver.request_stop()
    assert driver.ended() == 0
    ended = driver.exit()
    assert ended is not None
    assert ended.outcome is Outcome.STOPPED
    assert ended.reason == "Stopped by a test: It has seen enough."
    rows = lines(world.home / LAYOUT.progress(1) / "000001.jsonl")
    last = driver.query("q")
    assert last is not None
    assert [row["batch_id"] for row in rows] == list(range(last.batches))
    assert (world.folder / "out" / "_spark_metadata").is_dir()


@pytest.mark.nightly("A driver of its own.")
def test_a_finite_stream_completes_with_a_function_of_the_script_in_a_worker(world: World) -> None:
    driver = world.run(
        """
        def write(batch, number):
            batch.selectExpr("count(*) AS n").write.mode("append").json(str(folder / "out"))

        (folder / "in").mkdir()
        (folder / "in" / "a.json").write_text('{"value": 1}\\n{"value": 2}\\n')
        given = spark.readStream.schema("value long").json(str(folder / "in"))
        query = (given.writeStream.queryName("q").foreachBatch(write)
                 .trigger(availableNow=True).start())
        query.awaitTermination()
        for sink in ("memory", "console"):
            given.writeStream.trigger(availableNow=True).format(sink).start(queryName=sink)
        once = given.writeStream.trigger(availableNow=True)
        threading.Thread(target=lambda: once.queryName("table").toTable("kept")).start()
        query = (given.writeStream.queryName("q").foreachBatch(write)
                 .trigger(availableNow=True).start())
        query.awaitTermination()
        """
    )

    assert driver.ended() == 0
    ended, query = driver.exit(), driver.query("q")
    assert ended is not None
    assert query is not None
    assert ended.outcome is Outcome.COMPLETED
    assert query.batches == 1
    assert not query.active
    status = driver.status()
    assert status is not None
    told = {query.name: query.batches for query in status.queries}
    assert told == {"q": 1, "memory": 1, "console": 1, "table": 1}
    assert {query.checkpoint_origin for query in status.queries} == {CheckpointOrigin.DEPLOYMENT}
    assert list((world.folder / "warehouse" / "kept").glob("*.parquet"))


SLOW_BATCHES = """
def write(batch, number):
    with (folder / "began").open("a") as file:
        file.write(f"{number}\\n")
    time.sleep(2)
    with (folder / "wrote").open("a") as file:
        file.write(f"{number}\\n")

query = source().writeStream.queryName("q").foreachBatch(write).start()
query.awaitTermination()
"""


def test_sigterm_lets_the_running_batch_commit_and_begins_no_other(world: World) -> None:
    driver = world.run(SLOW_BATCHES)
    began = world.folder / "began"
    driver.until(began.exists, "A first batch")
    driver.has_committed(1)

    os.kill(driver.python_pid(), signal.SIGTERM)

    assert driver.ended() == 0
    ended = driver.exit()
    assert ended is not None
    assert (ended.outcome, ended.query) == (Outcome.STOPPED, None)
    commits = {file.name for file in (world.checkpoint() / "commits").glob("[0-9]*")}
    assert began.read_text() == (world.folder / "wrote").read_text()
    assert set(began.read_text().split()) == commits

    # The batch that was turned away at the gate is the first of the next epoch.
    world.begin_epoch(2)
    driver = world.launch(2).has_committed(1)
    driver.request_stop()
    assert driver.ended() == 0
    numbers = [int(line) for line in began.read_text().split()]
    assert numbers == list(range(len(numbers)))


ENDLESS_BATCH = """
def write(batch, number):
    (folder / "began").touch()
    while True:
        time.sleep(60)

query = source().writeStream.queryName("q").foreachBatch(write).start()
query.awaitTermination()
"""


@pytest.mark.nightly("A driver of its own.")
def test_a_stop_that_takes_too_long_cuts_the_driver_off(world: World) -> None:
    driver = world.run(ENDLESS_BATCH)
    driver.until((world.folder / "began").exists, "A first batch")

    driver.request_stop(grace=1)

    assert driver.ended() != 0
    ended = driver.exit()
    assert ended is not None
    assert ended.outcome is Outcome.STOPPED
    assert "Cut off after 1 s without a batch boundary in 'q'" in ended.reason


@pytest.mark.nightly("A driver waits for its home.")
def test_a_home_that_goes_away_does_not_disturb_the_query(world: World) -> None:
    driver = world.run(
        """
        query = (source().writeStream.format("noop").queryName("q")
                 .option("checkpointLocation", str(folder / "elsewhere"))
                 .trigger(processingTime="500 milliseconds").start())
        query.awaitTermination()
        """
    ).has_committed(1)
    commits = world.folder / "elsewhere" / "commits"
    query = driver.query("q")
    assert query is not None
    assert query.checkpoint_origin is CheckpointOrigin.SCRIPT

    world.home.rename(world.folder / "moved")
    world.home.write_text("a file where the home was")
    driver.until(lambda: "Writing the status fails" in driver.log, "A complaint")
    before = len(list(commits.glob("[0-9]*")))
    driver.until(lambda: len(list(commits.glob("[0-9]*"))) > before + 3, "More batches")
    assert driver.process.poll() is None

    world.home.unlink()
    (world.folder / "moved").rename(world.home)
    driver.until(lambda: "Writing the status works again" in driver.log, "Recovery")
    driver.request_stop()
    assert driver.ended() == 0
    assert driver.log.count("Writing the status fails") == 1


@pytest.mark.nightly("A driver of its own.")
def test_a_frozen_jvm_stops_the_heartbeat_but_cannot_hold_up_a_stop(world: World) -> None:
    driver = world.run(
        """
        query = source().writeStream.format("noop").queryName("q").start()
        query.awaitTermination()
        """
    ).has_committed(1)
    os.kill(driver.process.pid, signal.SIGSTOP)
    path = world.home / LAYOUT.epoch(1, "status.json")
    still_for = 3 * BEAT_SECONDS
    driver.until(
        lambda: time.time() - path.stat().st_mtime > still_for,
        "A silent heartbeat",
    )

    driver.request_stop(grace=1)

    assert driver.ended() != 0
    ended = driver.exit()
    assert ended is not None
    assert ended.outcome is Outcome.STOPPED
    assert "Cut off" in ended.reason


def test_a_newer_epoch_ends_the_driver_in_the_middle_of_a_batch(world: World) -> None:
    driver = world.run(ENDLESS_BATCH)
    driver.until((world.folder / "began").exists, "A first batch")

    world.begin_epoch(2)

    assert_fenced(driver)


def test_a_driver_that_was_suspended_commits_nothing_under_a_newer_epoch(world: World) -> None:
    driver = world.run(SLOW_BATCHES).has_committed(1)
    commits = world.checkpoint() / "commits"
    os.killpg(driver.process.pid, signal.SIGSTOP)
    before = sorted(file.name for file in commits.glob("[0-9]*"))

    world.begin_epoch(2)
    os.killpg(driver.process.pid, signal.SIGCONT)

    assert_fenced(driver)
    assert sorted(file.name for file in commits.glob("[0-9]*")) == before


def assert_fenced(driver: Driver) -> None:
    assert driver.ended() != 0
    ended = driver.exit()
    assert ended is not None
    assert ended.outcome is Outcome.FENCED
