"""State is never dropped silently: whose checkpoint is it, and is it still there?"""

from __future__ import annotations

import json
import shutil

import pytest

from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.spark.failure_signs import FailureKind
from tests.integration.driver.running import Driver, World

FOREVER = """
query = (source().writeStream.format("noop").queryName("q")
         .trigger(processingTime="500 milliseconds").start())
query.awaitTermination()
"""


def refusal(driver: Driver) -> str:
    assert driver.ended() == 2, driver.log
    ended = driver.exit()
    assert ended is not None
    assert (ended.outcome, ended.retryable) == (Outcome.FAILED, False)
    return ended.reason


@pytest.mark.nightly("Six drivers one after the other.")
def test_a_vanished_or_exchanged_checkpoint_is_refused_until_its_claim_is_deleted(
    world: World,
) -> None:
    world.deploy(FOREVER)
    world.begin_epoch(1)
    first = world.launch(1).has_committed(1)
    first.request_stop()
    assert first.ended() == 0

    # A new deployment goes on with the old one's checkpoint.
    world.deploy(FOREVER, number=2, checkpoint=str(world.checkpoint().parent))
    shutil.move(world.checkpoint(), world.folder / "aside")
    world.begin_epoch(2, deployment=2)
    told = refusal(world.launch(2))
    assert f"Checkpoint file:{world.checkpoint()} of query 'q'" in told
    assert "is empty or gone" in told
    assert f"delete {world.claim()}" in told

    shutil.copytree(world.folder / "aside", world.checkpoint())
    (world.checkpoint() / "metadata").write_text(json.dumps({"id": "somebody-else"}))
    (world.checkpoint() / ".metadata.crc").unlink()
    world.begin_epoch(3, deployment=2)
    assert "belongs to query id somebody-else" in refusal(world.launch(3))

    shutil.rmtree(world.checkpoint())
    shutil.move(world.folder / "aside", world.checkpoint())
    world.begin_epoch(4, deployment=2)
    last = world.launch(4).has_committed(1)
    last.request_stop()
    assert last.ended() == 0

    # To start empty on purpose, the claim is deleted too.
    shutil.rmtree(world.checkpoint())
    world.claim().unlink()
    world.begin_epoch(5)
    empty = world.launch(5).has_committed(1)
    # The claim is written with the next heartbeat.
    empty.until(world.claim().exists, "the claim of the new checkpoint")
    claim = json.loads(world.claim().read_text())
    query = empty.query("q")
    assert query is not None
    assert (claim["query_id"], claim["epoch"]) == (query.id, 5)


IN_MEMORY = """
mode = sys.argv[3]
rows = source().selectExpr("value % 3 as k")
rows = rows.groupBy("k").count() if mode == "complete" else rows
query = (rows.writeStream.queryName("q").format("memory").outputMode(mode)
         .trigger(processingTime="200 milliseconds").start())
query.awaitTermination()
total = spark.sql("select sum(count) from q").first()[0]
(folder / "totals").write_text(f"{total} {query.lastProgress['batchId']}")
"""


def killed_and_launched_again(world: World, mode: str) -> Driver:
    """Return the second driver of a query in memory whose first one was killed after two batches."""
    world.deploy(IN_MEMORY, application_args=(str(world.folder), "{stream}", mode))
    world.begin_epoch(1)
    world.launch(1).has_committed(2).kill()
    world.begin_epoch(2)
    return world.launch(2)


@pytest.mark.nightly("Two drivers.")
def test_a_memory_sink_in_complete_mode_continues_after_a_kill(world: World) -> None:
    driver = killed_and_launched_again(world, "complete")
    driver.has_committed(1)
    driver.request_stop()
    assert driver.ended() == 0, driver.log

    total, batch = map(int, (world.folder / "totals").read_text().split())
    assert batch >= 2
    # The stop may come between the write of a batch and its progress.
    assert total in (5 * (batch + 1), 5 * (batch + 2))


@pytest.mark.nightly("Two drivers.")
def test_spark_refuses_to_continue_a_memory_sink_in_append_mode(world: World) -> None:
    driver = killed_and_launched_again(world, "append")
    assert driver.ended() != 0

    ended = driver.exit()
    assert ended is not None
    assert ended.failure_kind is FailureKind.CONFIGURATION
    assert "does not support recovering from checkpoint location" in ended.reason


@pytest.mark.nightly("Two drivers.")
def test_a_query_that_died_in_its_first_plan_begins_again(world: World) -> None:
    world.deploy(FOREVER)
    world.begin_epoch(1)
    driver = world.launch(1).has_committed(1)
    driver.kill()
    # The checkpoint as a kill leaves it that comes before the first plan is renamed.
    for folder in ("commits", "offsets"):
        shutil.rmtree(world.checkpoint() / folder)
    (world.checkpoint() / "offsets").mkdir()
    (world.checkpoint() / "offsets" / ".0.f0ea31f2-a0fa-493c-8c8a-ad6d222b31b5.tmp").write_text(
        "v1"
    )

    world.begin_epoch(2)
    again = world.launch(2).has_committed(1)
    again.request_stop()

    assert again.ended() == 0, again.log
    assert "died in its first batch" in again.log
