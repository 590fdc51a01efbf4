"""A driver that fails says what failed, and takes everything down with it."""

from __future__ import annotations

import os
import signal

import pytest

from airflow_streaming.model.records.epoch import Outcome
from tests.integration.driver.running import World
from tests.patience import until


def test_one_failed_query_stops_the_others_and_fails_the_driver(world_on_each_spark: World) -> None:
    driver = world_on_each_spark.run(
        """
        def write(batch, number):
            if number == 2:
                raise ValueError("a bad row, password=canary")

        bad = source().writeStream.queryName("bad").foreachBatch(write).start()
        good = (source().writeStream.queryName("good").format("noop")
                .trigger(processingTime="500 milliseconds").start())
        while True:  # never looks at its queries
            time.sleep(3600)
        """
    )

    assert driver.ended() == 1
    ended, good, bad = driver.exit(), driver.query("good"), driver.query("bad")
    assert ended is not None
    assert good is not None
    assert bad is not None
    assert ended.outcome is Outcome.FAILED
    assert ended.retryable
    assert (ended.query, ended.batch_id) == ("bad", 2)
    assert ended.exception_class == "ValueError"
    assert (
        ended.reason == "Query 'bad' failed in batch 2: ValueError: a bad row, password=(redacted)"
    )
    assert ended.condition == "STREAM_FAILED"
    assert ended.conditions[0] == "STREAM_FAILED"
    assert not good.active
    assert good.error is None
    assert bad.error == "ValueError: a bad row, password=(redacted)"


@pytest.mark.nightly("Two drivers one after the other.")
def test_a_batch_that_fails_again_after_a_restart_is_named_again(world: World) -> None:
    world.deploy(
        """
        from pyspark.sql.functions import expr
        rows = source().select(expr("assert_true(value < 12)"))
        query = rows.writeStream.queryName("q").format("noop").start()
        query.awaitTermination()
        """
    )
    for number in (1, 2):
        world.begin_epoch(number)
        driver = world.launch(number)
        assert driver.ended() == 1
        ended = driver.exit()
        assert ended is not None
        assert (ended.query, ended.batch_id) == ("q", 2)
        assert ended.conditions == ("STREAM_FAILED", "USER_RAISED_EXCEPTION")


@pytest.mark.parametrize(
    ("script", "code", "reason", "retryable"),
    [
        pytest.param(
            "print('nothing to do')",
            1,
            "The script ended without starting a streaming query.",
            False,
            marks=pytest.mark.nightly("A driver of its own."),
            id="no query",
        ),
        pytest.param(
            "sys.exit(7)", 1, "The script failed: It left with exit code 7.", True, id="7"
        ),
        pytest.param(
            """
query = source().writeStream.format("noop").queryName("a").start()
here = str(folder / "home" / "orders" / "checkpoints" / "000001" / "a")
try:
    source().writeStream.format("noop").queryName("b").start(checkpointLocation=here)
except Exception as error:
    print("SWALLOWED", error)
query.awaitTermination()
""",
            2,
            "which the active query 'a' uses already",
            False,
            id="two queries on one checkpoint",
        ),
    ],
)
def test_a_script_that_cannot_be_run_is_refused_with_a_sentence(
    world: World, script: str, code: int, reason: str, retryable: bool
) -> None:
    driver = world.run(script)

    assert driver.ended() == code, driver.log
    ended = driver.exit()
    assert ended is not None
    assert reason in ended.reason
    assert (ended.outcome, ended.retryable) == (Outcome.FAILED, retryable)


@pytest.mark.nightly("A driver of its own.")
def test_spark_connect_is_refused_even_if_the_script_carries_on(world: World) -> None:
    driver = world.run(
        """
        query = source().writeStream.format("noop").queryName("q").start()
        try:
            SparkSession.builder.remote("sc://nowhere").getOrCreate()
        except Exception as error:
            print("SWALLOWED", error)
        query.awaitTermination()
        """
    )

    assert driver.ended() == 2, driver.log
    ended = driver.exit()
    assert ended is not None
    assert "This script uses Spark Connect" in ended.reason


def test_a_killed_jvm_is_told_even_by_a_script_that_never_asks_it(world: World) -> None:
    driver = world.run(
        """
        source().writeStream.format("noop").queryName("q").start()
        while True:
            time.sleep(3600)
        """
    ).has_committed(1)

    os.kill(driver.process.pid, signal.SIGKILL)

    ended = until(driver.exit, "A last word")
    assert ended.outcome is Outcome.FAILED
    assert ended.retryable
    assert ended.reason.startswith("The Spark JVM of this driver is gone")
