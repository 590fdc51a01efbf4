"""A declarative pipeline as a stream on a real Spark: three flows, kills, a stop, and nothing lost or doubled."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import sources_of
from airflow_streaming.checkpoints.reader import query_folders
from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.launch.pipeline_files import read_pipeline
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.pipeline.flows import query_of
from airflow_streaming.model.records.epoch import Outcome, QueryClaim
from airflow_streaming.storage.folders import open_folders
from tests.conftest import find_runtimes
from tests.integration.driver.running import LAYOUT, STREAM, Driver, World

SPEC: Final = """
name: orders
storage: "{checkpoint}"
configuration:
  orders.events: "{output}/events"
libraries:
  - glob:
      include: flows/**
"""
FLOWS: Final = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.active()


@dp.table
def bronze():
    events = spark.conf.get("orders.events")
    return spark.readStream.format("json").schema("id long, amount long").option("maxFilesPerTrigger", 1).load(events)


@dp.table
def silver():
    return spark.readStream.table("bronze").where("amount >= 0").dropDuplicates(["id"])


@dp.table
def gold():
    return spark.readStream.table("silver").select("id", (F.col("amount") * 2).alias("gross"))
"""
QUERIES: Final = tuple(f"spark_catalog.default.{flow}" for flow in ("bronze", "silver", "gold"))
GOLD: Final = QUERIES[-1]


class Pipeline:
    """A stream of three flows, whose tables a catalog on disk keeps."""

    def __init__(self, world: World) -> None:
        self.world, self._files = world, itertools.count()
        self.epochs = 0
        self._made: list[tuple[int, int]] = []
        folder = world.folder / "application"
        (folder / "flows").mkdir(parents=True)
        (folder / "pipeline.yml").write_text(SPEC)
        (folder / "flows" / "flows.py").write_text(FLOWS)
        spec = str(folder / "pipeline.yml")
        self._program = {"application": spec, "application_args": ("--every", "1")}
        self.deployment = world.deploy_program(read_pipeline(spec), **self._program)
        self.events = Path(self.deployment.output) / "events"
        self.events.mkdir(parents=True)

    def feed(self, files: int = 3) -> None:
        for number in itertools.islice(self._files, files):
            # Every fifth event of a file comes again in the next one, and some are refused.
            first = 80 * number
            rows = [(first + i, i - 1) for i in range(100)]
            text = "".join(json.dumps({"id": id, "amount": amount}) + "\n" for id, amount in rows)
            hidden = self.events / f".{number}.json"
            hidden.write_text(text)
            hidden.rename(self.events / f"{number:04}.json")
            self._made += rows

    def deploy_on(self, checkpoint: str) -> None:
        """Deploy the same program on another checkpoint."""
        self.deployment = self.world.deploy_program(
            read_pipeline(str(self._program["application"])),
            self.deployment.number + 1,
            **{**self._program, "checkpoint": checkpoint, "output": self.deployment.output},
        )

    def start(self) -> Driver:
        self.epochs += 1
        self.world.begin_epoch(self.epochs, self.deployment.number)
        catalog = f"jdbc:derby:;databaseName={self.world.folder}/metastore;create=true"
        conf = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": catalog,
        }
        return self.world.launch(
            self.epochs, submit=[part for one in conf.items() for part in ("--conf", "=".join(one))]
        )

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the committed rows of a table, by the log of its sink."""
        import pyarrow.parquet as pq

        log = self.world.folder / "warehouse" / name / "_spark_metadata"
        files: set[str] = set()
        for batch in log.iterdir():
            if not batch.name.startswith("."):
                lines = batch.read_text().splitlines()[1:]
                files |= {
                    json.loads(line)["path"].removeprefix("file:").replace("///", "/")
                    for line in lines
                }
        return [row for file in sorted(files) for row in pq.read_table(file).to_pylist()]

    def gold(self) -> Counter[int]:
        return Counter(int(row["id"]) for row in self.table("gold"))

    def expected(self) -> Counter[int]:
        return Counter(dict.fromkeys({id for id, amount in self._made if amount >= 0}, 1))

    def has_all(self, driver: Driver) -> None:
        def whole() -> bool:
            try:
                return self.gold() >= self.expected()
            except OSError:
                return False

        driver.until(whole, "Every event in the gold table")


@pytest.fixture
def pipeline(world: World) -> Pipeline:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        pytest.skip("Reading the tables needs pyarrow.")
    python = find_runtimes()["spark-4.3"] / "lib"
    if not list(python.glob("python*/site-packages/grpc")):
        pytest.skip("The runtime has no grpcio; run 'make setup'.")
    return Pipeline(world)


def restored(pipeline: Pipeline) -> str:
    """Back the stopped pipeline up, and restore it beside; return where."""
    checkpoint, folder = pipeline.deployment.checkpoint, pipeline.world.folder
    store = open_backup_store(str(folder / "store"), create=True)
    folders = open_folders(checkpoint)
    backup = take_backup(
        sources_of(folders), store, stream=STREAM, origin=Origin.MANUAL, by="a test"
    )
    assert [query.folder for query in backup.queries] == sorted(QUERIES)
    places = {query_of(place): place for place in query_folders(folders)}
    restore(store, backup.id, Place(to=f"{checkpoint}-restored", folders=places))
    return f"{checkpoint}-restored"


def test_three_flows_survive_kills_and_stop(pipeline: Pipeline) -> None:
    for query in QUERIES:
        # Between the flows of an update: this one has committed, and the next ones have not.
        pipeline.feed()
        driver = pipeline.start().has_committed(1, query)
        pipeline.feed()
        driver.has_committed(2, QUERIES[0]).kill()
    pipeline.feed()
    driver = pipeline.start()
    pipeline.has_all(driver)
    for query in QUERIES:
        driver.has_committed(1, query)
    driver.request_stop()

    assert driver.ended() == 0, driver.log
    ended = driver.exit()
    assert ended is not None
    assert ended.outcome is Outcome.STOPPED
    assert pipeline.gold() == pipeline.expected()
    assert len(pipeline.table("silver")) == len(pipeline.expected())

    # The flows continue from a restored backup, and not from their old checkpoints.
    was = pipeline.deployment.checkpoint
    pipeline.deploy_on(restored(pipeline))
    Path(was).rename(f"{was}-gone")
    pipeline.feed()
    driver = pipeline.start()
    pipeline.has_all(driver)
    driver.request_stop()
    assert driver.ended() == 0, driver.log
    assert pipeline.gold() == pipeline.expected()
    for query in QUERIES:
        path = LAYOUT.place(QueryClaim, deployment=2, query=query)
        data = pipeline.world.store.read(path)
        assert data is not None, path
