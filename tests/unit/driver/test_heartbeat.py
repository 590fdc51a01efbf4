from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.exit_status import ShutdownState, Stop
from airflow_streaming.driver.jvm import JvmProcess, JvmView
from airflow_streaming.driver.launch_context import LaunchContext
from airflow_streaming.driver.monitoring.heartbeat import BEAT_SECONDS, Report, rest_after
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.standby.barrier import OrderBook, StandbyBarrier
from airflow_streaming.model.records.epoch import OrderAct, StandbyOrder
from airflow_streaming.model.status import DriverState, Status
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.fakes import (
    LAYOUT,
    NOON,
    AbsentStore,
    FakeQuery,
    make_deployment,
    make_epoch,
    make_tracked,
)


class FakeJvm(JvmView):
    def __init__(self) -> None:
        super().__init__(JvmProcess())
        self.answers = True

    def ping(self) -> None:
        if not self.answers:
            raise OSError("no answer")
        self.application_id, self.ui_url = "local-1", "http://localhost:4040"


class World:
    """A report on one fake query."""

    def __init__(self, store: LocalStore, *, barrier: StandbyBarrier | None = None) -> None:
        self.store, self.jvm, self.ending, self.queries = (
            store,
            FakeJvm(),
            ShutdownState(),
            Queries(),
        )
        self.report = Report(
            LaunchContext(
                home=store.uri, epoch=make_epoch(), deployment=make_deployment(), source=b""
            ),
            store,
            queries=self.queries,
            claims=Claims(store, LAYOUT, deployment=1, epoch=1),
            ending=self.ending,
            jvm=self.jvm,
            on_failure=self.ending.fail,
            barrier=barrier,
        )

    def status(self) -> Status:
        data = self.store.read(LAYOUT.epoch(1, "status.json"))
        assert data is not None
        return Status.from_bytes(data)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(LocalStore(str(tmp_path)))


def test_the_first_sign_of_life_needs_no_jvm(world: World) -> None:
    world.jvm.answers = False
    world.report.begin()
    world.report.close()
    status = world.status()
    assert (status.beat, status.state, status.application_id) == (1, DriverState.STARTING, None)
    assert (status.token, status.epoch, status.stream) == ("token", 1, "orders")


def test_a_beat_tells_every_query_and_leaves_its_history(world: World) -> None:
    fake = FakeQuery()
    fake.commit(0, 1)
    world.queries.add(make_tracked(fake))
    world.report.beat()

    status = world.status()
    assert status.state is DriverState.RUNNING
    assert (status.application_id, status.ui_url) == ("local-1", "http://localhost:4040")
    assert status.batches == 2
    assert status.first_progress_at is not None
    assert world.store.names(LAYOUT.progress(1)) == ["000001.jsonl"]

    fake.commit(2)
    world.report.beat()
    later = world.status()
    assert (later.beat, later.batches) == (2, 3)
    assert later.first_progress_at == status.first_progress_at


def test_the_heartbeat_stands_still_while_the_jvm_does_not_answer(world: World) -> None:
    world.report.beat()
    world.jvm.answers = False
    world.report.beat()
    assert world.status().beat == 1
    world.jvm.answers = True
    world.report.beat()
    assert world.status().beat == 2


def test_a_failed_query_begins_the_end(world: World) -> None:
    fake = FakeQuery()
    world.queries.add(make_tracked(fake))
    fake.fail()
    world.report.beat()
    assert world.ending.begun.is_set()
    assert world.status().queries[0].error == "ValueError: a bad row"


def test_a_driver_that_is_asked_to_stop_says_so(world: World) -> None:
    world.ending.ask_stop(Stop(by="ann", reason="Enough.", grace=60))
    world.report.beat()
    assert world.status().state is DriverState.STOPPING


def test_a_home_that_is_away_costs_beats_and_nothing_else(tmp_path: Path) -> None:
    store = AbsentStore(str(tmp_path))
    world = World(store)
    fake = FakeQuery()
    world.queries.add(make_tracked(fake))
    fake.commit(0)
    world.report.beat()
    fake.commit(1)
    store.present = True
    world.report.beat()
    assert world.status().batches == 2
    assert not world.ending.begun.is_set()


@pytest.mark.parametrize(
    ("worked", "rest"),
    [
        pytest.param(0.001, BEAT_SECONDS, id="usually"),
        pytest.param(0.2, 4.0, id="many queries"),
        pytest.param(30.0, 10.0, id="a JVM that was away"),
    ],
)
def test_a_beat_takes_a_twentieth_of_the_time_at_most(worked: float, rest: float) -> None:
    assert rest_after(worked) == pytest.approx(rest)


def test_a_driver_at_the_barrier_says_so_until_it_is_released(tmp_path: Path) -> None:
    store, ending = LocalStore(str(tmp_path)), ShutdownState()
    barrier = StandbyBarrier(OrderBook(store, LAYOUT, 1), ending=ending, check_fence=lambda: None)
    world = World(store, barrier=barrier)
    world.report.beat()
    assert world.status().standby
    order = StandbyOrder(epoch=1, number=1, act=OrderAct.RELEASE, at=NOON, by="kim")
    store.create(LAYOUT.place(StandbyOrder, epoch=1, number=1), LAYOUT.bytes_of(order))
    barrier.look()
    world.report.beat()
    assert not world.status().standby


def test_the_first_epoch_of_a_continuous_query_is_progress(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.queries.add(make_tracked(FakeQuery()))
    world.report.beat()
    assert world.status().first_progress_at is None

    monkeypatch.setattr(Queries, "commits_epochs", property(lambda _: True))
    world.report.beat()

    assert world.status().first_progress_at is not None
