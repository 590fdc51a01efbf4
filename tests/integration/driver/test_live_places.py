"""The driver of a lane that is not live writes no live place, whatever a plan can show of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.records.cutover_table import CutoverEvent
from airflow_streaming.model.records.epoch import Epoch, Outcome
from airflow_streaming.model.spark.plan import QueryPlan
from tests.integration.driver.running import LAYOUT, NOW, STREAM, Driver, World
from tests.integration.servers.broker import create_topic, kafka_broker
from tests.integration.servers.connector import official_jars

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
EACH_KIND = """
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
kinds, place, prefix, kept, servers = sys.argv[3:]

class Nowhere(DataSourceStreamWriter):
    def write(self, rows):
        for _ in rows:
            pass
        return WriterCommitMessage()

class Acme(DataSource):
    @classmethod
    def name(cls):
        return "acme"

    def streamWriter(self, schema, overwrite):
        return Nowhere()

def by_function(batch, number):
    batch.write.mode("append").parquet(f"{folder}/function-{place}")

def by_jdbc(batch, number):
    batch.write.jdbc(f"jdbc:derby:{folder}/shop;create=true", f"t_{place}", mode="append")

spark.dataSource.register(Acme)
rows = source().selectExpr("cast(value as string) as value").where(kept)
for kind in kinds.split(","):
    writer = rows.writeStream.queryName(prefix + kind).trigger(processingTime="1 second")
    if kind == "files":
        writer.format("parquet").start(f"{folder}/files-{place}")
    elif kind == "table":
        writer.format("parquet").toTable(f"t_{place}")
    elif kind == "python":
        writer.format("acme").option("topic", place).start()
    elif kind == "topic":
        # A busy machine gives a client's thread no turn for a minute and longer.
        servers_of = {"kafka.bootstrap.servers": servers, "kafka.max.block.ms": "300000"}
        writer.format("kafka").options(**servers_of, topic=place).start()
    else:
        writer.foreachBatch({"function": by_function, "jdbc": by_jdbc}[kind]).start()
spark.streams.awaitAnyTermination()
"""
KINDS = {
    "files": False,
    "table": False,
    "function": False,
    "jdbc": False,
    "python": True,
    "topic": True,
}
"""Each kind of sink, and whether Spark reports how many rows it has written."""
TO_FILES = """
source().writeStream.format("parquet").queryName("q").start(str(folder / "out")).awaitTermination()
"""


def recorded(driver: Driver, query: str = "q") -> QueryPlan:
    path = LAYOUT.place(QueryPlan, epoch=1, query=query)
    data = driver.until(lambda: driver.world.store.read(path), "The plan's record")
    return QueryPlan.from_bytes(data)


def make_other_lane_live(world: World, *plans: QueryPlan) -> None:
    """Record that the other lane is live, and runs queries with these plans."""
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
    for plan in plans:
        place = OTHER.place(QueryPlan, epoch=1, query=plan.query)
        world.store.create(place, OTHER.bytes_of(plan))
    world.store.create(LAYOUT.place(LiveRecord, number=1), LAYOUT.bytes_of(live))


def stopped(driver: Driver) -> None:
    driver.has_committed(1)
    driver.request_stop()
    driver.ended()


@pytest.mark.nightly("Two drivers; a table shows the refusal.")
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


@pytest.mark.nightly("Two more drivers; a table shows the refusal.")
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


@pytest.mark.nightly("Eight Sparks one after the other.")
def test_a_renamed_query_is_refused_the_live_place_of_each_kind_of_sink(world: World) -> None:
    jars = official_jars()

    def start(number: int, servers: str, kinds: str, place: str, kept: str = "true") -> Driver:
        prefix = "renamed_" if number > 2 else ""
        arguments = (str(world.folder), "{stream}", kinds, place, prefix, kept, servers)
        world.deploy(EACH_KIND, number, application_args=arguments)
        world.begin_epoch(number, number)
        return world.launch(number, submit=["--jars", jars])

    def written(driver: Driver) -> dict[str, int | None]:
        for kind in KINDS:
            driver.has_committed(2, kind)
        found = {kind: driver.query(kind) for kind in KINDS}
        driver.request_stop()
        driver.ended()
        return {k: q.progress.output_rows for k, q in found.items() if q and q.progress}

    with kafka_broker(world.folder / "kafka") as servers:
        for topic in ("live", "other"):
            create_topic(servers, topic, 1)
        blue = start(1, servers, ",".join(KINDS), "live")
        for kind in ("function", "jdbc"):
            blue.until(lambda kind=kind: recorded(blue, kind).writes, "What the function writes")
        wrote = written(blue)
        plans = [recorded(blue, kind) for kind in KINDS]
        dropped = written(start(2, servers, ",".join(KINDS), "other", "false"))
        make_other_lane_live(world, *plans)
        ends = {}
        for number, kind in enumerate(KINDS, start=3):
            green = start(number, servers, kind, "live")
            green.ended()
            ends[kind] = green.exit()

    assert {kind: rows is not None and rows > 0 for kind, rows in wrote.items()} == KINDS
    assert dropped == {kind: 0 if counts else None for kind, counts in KINDS.items()}
    for kind, found in ends.items():
        assert found is not None, kind
        assert (found.outcome, found.retryable) == (Outcome.FAILED, False), found.reason
        assert f"Query 'renamed_{kind}' of lane '{STREAM}' would write" in found.reason
        assert "every row would be there twice" in found.reason
