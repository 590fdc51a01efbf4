"""The driver of a lane that is not live writes no live place, whatever a plan can show of it."""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.cutover_table import CutoverEvent
from airflow_streaming.model.records.epoch import Epoch, Outcome
from airflow_streaming.model.spark.plan import QueryPlan
from tests.integration.driver.running import LAYOUT, NOW, STREAM, Driver, World

OTHER = Layout(f"{STREAM}.green")
BY_FUNCTION = """
url = f"jdbc:derby:{folder}/shop;create=true"

def write(batch, number):
    try:
        batch.select("value").write.jdbc(url, "orders", mode="append")
        (folder / "written").touch()
    except BaseException:
        pass

source().writeStream.foreachBatch(write).queryName("q").start().awaitTermination()
"""
TO_LINK = """
link = folder / "link"
link.exists() or link.symlink_to(folder / "out")
source().writeStream.format("parquet").queryName("renamed").start(f"file://{link}/").awaitTermination()
"""
TO_FILES = """
source().writeStream.format("parquet").queryName("q").start(str(folder / "out")).awaitTermination()
"""


def recorded(driver: Driver, query: str = "q") -> QueryPlan:
    path = LAYOUT.place(QueryPlan, epoch=1, query=query)
    data = driver.until(lambda: driver.world.store.read(path), "The plan's record")
    return QueryPlan.from_bytes(data)


def make_other_lane_live(world: World, plan: QueryPlan) -> None:
    """Record that the other lane is live, and runs a query with this plan."""
    live = LiveRecord(
        number=1,
        stream=STREAM,
        lane=OTHER.root,
        deployment=1,
        output="/elsewhere",
        leader=STREAM,
        change=1,
        step=1,
        event=CutoverEvent.SWITCHED,
        at=NOW,
        by="a test",
    )
    epoch = Epoch.from_bytes(world.store.read(LAYOUT.place(Epoch, number=1)) or b"")
    other = replace(epoch, stream=OTHER.root)
    world.store.create(OTHER.place(Epoch, number=1), OTHER.bytes_of(other))
    world.store.create(OTHER.place(QueryPlan, epoch=1, query=plan.query), OTHER.bytes_of(plan))
    world.store.create(LAYOUT.place(LiveRecord, number=1), LAYOUT.bytes_of(live))


def stopped(driver: Driver) -> None:
    driver.has_committed(1)
    driver.request_stop()
    driver.ended()


def test_a_function_is_refused_the_table_of_the_live_lane(world_on_each_spark: World) -> None:
    world = world_on_each_spark
    blue = world.run(BY_FUNCTION)
    blue.until(lambda: recorded(blue).writes, "What the function writes")
    stopped(blue)
    (sink,) = recorded(blue).writes
    assert (sink.sink, sink.options["dbtable"]) == ("jdbc", "orders")
    (world.folder / "written").unlink()

    make_other_lane_live(world, recorded(blue))
    world.begin_epoch(2)
    green = world.launch(2)
    green.ended()

    assert (found := green.exit()) is not None
    assert (found.outcome, found.retryable) == (Outcome.FAILED, False), found.reason
    assert "dbtable=orders" in found.reason
    assert not (world.folder / "written").exists()


def test_a_link_to_the_folder_of_the_live_lane_is_refused(world: World) -> None:
    blue = world.run(TO_FILES)
    plan = recorded(blue)
    stopped(blue)
    world.deploy(TO_LINK, 2)
    make_other_lane_live(world, plan)
    world.begin_epoch(2, 2)
    green = world.launch(2)
    green.ended()

    assert (found := green.exit()) is not None
    assert (found.outcome, found.retryable) == (Outcome.FAILED, False), found.reason
    assert f"would write {world.folder}/out" in found.reason
