from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.launch_context import LaunchContext
from airflow_streaming.driver.monitoring.heartbeat import Report
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.sinks.config import CONF_PREFIX
from airflow_streaming.driver.sinks.outlet import Sinks
from airflow_streaming.model.status import SinkStatus, Status
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.fakes import LAYOUT, FakeQuery, make_deployment, make_epoch, make_tracked
from tests.unit.driver.sinks.events import ORIGIN
from tests.unit.driver.test_heartbeat import FakeJvm


class World:
    """A report on one fake query, with a sink that writes files."""

    def __init__(self, folder: Path) -> None:
        self.store, self.queries, self.fake = LocalStore(str(folder)), Queries(), FakeQuery()
        self.folder = folder / "sink"
        conf = {f"{CONF_PREFIX}s": "jsonlines", f"{CONF_PREFIX}.jsonlines.folder": str(self.folder)}
        ending = ShutdownState()
        self.report = Report(
            LaunchContext(
                home=self.store.uri, epoch=make_epoch(), deployment=make_deployment(), source=b""
            ),
            self.store,
            queries=self.queries,
            claims=Claims(self.store, LAYOUT, deployment=1, epoch=1),
            ending=ending,
            jvm=FakeJvm(),
            on_failure=ending.fail,
            sinks=Sinks(ORIGIN, read_conf=lambda: conf),
        )
        self.queries.add(make_tracked(self.fake))

    def status(self) -> Status:
        data = self.store.read(LAYOUT.epoch(1, "status.json"))
        assert data is not None
        return Status.from_bytes(data)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_every_batch_goes_out_whole_and_the_last_status_tells_the_final_counts(
    world: World,
) -> None:
    world.fake.commit(0, 1)
    world.report.beat()
    world.fake.commit(2)
    world.report.close()
    assert world.status().sinks == (SinkStatus(sink="jsonlines", sent=3),)
    text = (world.folder / "orders.jsonl").read_text()
    told = [json.loads(line)["progress"] for line in text.splitlines()]
    assert told == world.fake.reports


def test_a_sink_in_trouble_is_seen_in_the_status_and_disturbs_nothing(world: World) -> None:
    world.folder.touch()  # a file where the folder should be
    world.fake.commit(0)
    world.report.beat()
    world.report.close()
    [sink] = world.status().sinks
    assert (sink.sent, sink.dropped) == (0, 1)
    assert sink.trouble is not None
    assert "cannot be written" in sink.trouble
    assert world.status().batches == 1
