from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_streaming.driver.exit_status import ShutdownState, Stop
from airflow_streaming.driver.jvm import JvmProcess
from airflow_streaming.driver.shutdown import Fence, HardExit
from airflow_streaming.driver.standby.barrier import (
    Absorb,
    OrderBook,
    StandbyBarrier,
    barrier_of,
    make_patient,
)
from airflow_streaming.exceptions import HomeUnavailable, StopRequested
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.epoch import OrderAct, StandbyAnswer, StandbyOrder
from tests.patience import PATIENCE, until
from tests.unit.driver.fakes import LAYOUT, NOON, AbsentStore, make_epoch


class Starting(threading.Thread):
    """A thread of the script that starts one query."""

    def __init__(self, barrier: StandbyBarrier, query: str, absorb: Absorb) -> None:
        super().__init__(daemon=True)
        self._barrier, self._query, self._absorb = barrier, query, absorb
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._barrier.wait(self._query, self._absorb)
        except BaseException as err:  # noqa: BLE001 - the test looks at it
            self.error = err

    def started(self) -> Starting:
        self.join(PATIENCE)
        assert not self.is_alive(), "the query should have started"
        return self


class World:
    """A standby driver and whoever gives it orders."""

    def __init__(self, folder: Path) -> None:
        self.store = AbsentStore(str(folder))
        self.store.present = True
        self.home = StreamHome(self.store, "orders")
        self.ending = ShutdownState()
        self.checked: list[str] = []
        self.absorbed: list[tuple[str, int]] = []
        self.barrier = StandbyBarrier(
            OrderBook(self.store, LAYOUT, 1),
            ending=self.ending,
            check_fence=lambda: self.checked.append("fence"),
            expected=("q1", "q2"),
            look_seconds=0.01,
        )

    def absorb(self, query: str) -> Absorb:
        def run(batch: int) -> int:
            self.absorbed.append((query, batch))
            return batch

        return run

    def start(self, query: str, absorb: Absorb | None = None) -> Starting:
        starting = Starting(self.barrier, query, absorb or self.absorb(query))
        starting.start()
        return starting

    def arrived(self, *queries: str) -> None:
        self.until(lambda: (b := self.home.barrier(1)) is not None and set(b.queries) == {*queries})

    def order(self, number: int, act: OrderAct, **more: dict[str, int]) -> None:
        self.home.give_order(
            StandbyOrder(epoch=1, number=number, act=act, at=NOON, by="kim", **more)
        )

    def answer(self, number: int) -> StandbyAnswer:
        self.until(lambda: self.home.answer(1, number) is not None)
        answer = self.home.answer(1, number)
        assert answer is not None
        return answer

    def until(self, condition: Callable[[], bool]) -> None:
        until(condition, "What the barrier is to do", every=0.01)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.barrier.begin()
    yield made
    made.ending.fail()


def test_queries_wait_absorb_and_wait_again_until_they_are_released(world: World) -> None:
    first, second = world.start("q1"), world.start("q2")
    world.arrived("q1", "q2")
    world.order(1, OrderAct.ABSORB, absorb={"q1": 7, "q2": 3})
    assert world.answer(1).committed == {"q1": 7, "q2": 3}
    world.order(2, OrderAct.ABSORB, absorb={"q1": 8})
    assert world.answer(2).committed == {"q1": 8}
    assert first.is_alive()
    assert second.is_alive()
    assert world.barrier.is_closed

    world.order(3, OrderAct.RELEASE)
    assert world.answer(3).error == ""
    assert (first.started().error, second.started().error) == (None, None)
    assert world.checked == ["fence", "fence"], "a suspended driver may have lost its epoch"
    assert not world.barrier.is_closed


def test_every_query_but_the_last_one_waits_beside_the_script(world: World) -> None:
    assert world.barrier.sets_aside("q1")
    assert world.barrier.sets_aside("unheard of")
    assert not world.barrier.sets_aside("q2")
    assert not world.barrier.sets_aside("q1")


def test_nobody_waits_beside_the_script_after_the_release(world: World) -> None:
    world.order(1, OrderAct.RELEASE)
    world.answer(1)

    assert not world.barrier.sets_aside("q1")


def test_a_query_that_comes_after_the_release_does_not_wait(world: World) -> None:
    world.start("q1")
    world.arrived("q1")
    world.order(1, OrderAct.RELEASE)
    world.answer(1)
    assert world.start("q2").started().error is None
    assert world.absorbed == []


def test_an_order_to_a_query_that_is_not_there_yet_is_answered_so(world: World) -> None:
    world.start("q1")
    world.arrived("q1")
    world.order(1, OrderAct.ABSORB, absorb={"q1": 7, "q2": 3})
    answer = world.answer(1)
    assert answer.committed == {"q1": 7}
    assert "Query 'q2' is not at the barrier" in answer.error
    assert world.absorbed == [("q1", 7)]


def test_a_batch_that_fails_is_told_and_may_be_ordered_again(world: World) -> None:
    tries: list[int] = []

    def absorb(batch: int) -> int:
        tries.append(batch)
        if len(tries) == 1:
            raise ValueError("a bad row")
        return batch

    waiting = world.start("q1", absorb)
    world.arrived("q1")
    world.order(1, OrderAct.ABSORB, absorb={"q1": 7})
    assert "has not absorbed its batch: ValueError: a bad row" in world.answer(1).error
    world.order(2, OrderAct.ABSORB, absorb={"q1": 7})
    assert (world.answer(2).error, world.answer(2).committed) == ("", {"q1": 7})
    assert waiting.is_alive()


def test_an_order_that_cannot_be_read_is_answered_and_the_next_one_is_taken(world: World) -> None:
    waiting = world.start("q1")
    world.store.create(LAYOUT.place(StandbyOrder, epoch=1, number=1), b"{")
    assert world.answer(1).error
    foreign = StandbyOrder(epoch=9, number=2, act=OrderAct.RELEASE, at=NOON, by="kim")
    world.store.create(LAYOUT.place(StandbyOrder, epoch=1, number=2), LAYOUT.bytes_of(foreign))
    assert "its epoch is 9, not 1" in world.answer(2).error
    assert waiting.is_alive()
    world.order(3, OrderAct.RELEASE)
    waiting.started()


def test_a_home_that_is_away_releases_nobody_and_is_asked_again(world: World) -> None:
    waiting = world.start("q1")
    world.arrived("q1")
    world.order(1, OrderAct.RELEASE)
    world.store.present = False
    calls = world.store.calls
    world.until(lambda: world.store.calls > calls + 2 or not world.barrier.is_closed)
    world.store.present = True
    assert waiting.started().error is None


def test_what_is_released_asks_the_home_no_more(world: World) -> None:
    world.order(1, OrderAct.RELEASE)
    world.answer(1)
    world.store.present = False
    assert world.start("q1").started().error is None


def test_an_answer_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    world = World(tmp_path)

    def is_away() -> bool:
        try:
            world.barrier.look()
        except HomeUnavailable:
            return True
        return False

    waiting = world.start("q1")
    world.until(lambda: not is_away() and world.home.barrier(1) is not None)
    world.order(1, OrderAct.ABSORB, absorb={"q1": 7})
    world.barrier.look()
    world.store.present = False
    world.until(is_away)
    world.store.present = True
    world.barrier.look()
    assert world.answer(1).committed == {"q1": 7}
    assert world.absorbed == [("q1", 7)]
    world.ending.fail()
    assert isinstance(waiting.started().error, StopRequested)


def test_a_stop_ends_the_waiting(world: World) -> None:
    waiting = world.start("q1")
    world.arrived("q1")
    world.ending.ask_stop(Stop(by="ann", reason="Enough.", grace=1))
    assert isinstance(waiting.started().error, StopRequested)
    world.barrier.await_release()


def test_who_waits_for_any_query_to_end_waits_for_the_release_first(world: World) -> None:
    class Manager:
        def awaitAnyTermination(self, timeout: float | None = None) -> float | None:
            assert not world.barrier.is_closed
            return timeout

    make_patient(Manager, world.barrier)
    found: list[float | None] = []
    waiting = threading.Thread(target=lambda: found.append(Manager().awaitAnyTermination(3)))
    waiting.start()
    world.order(1, OrderAct.RELEASE)
    waiting.join(PATIENCE)
    assert found == [3]


@pytest.mark.parametrize("standby", [True, False])
def test_only_the_driver_of_a_standby_epoch_has_a_barrier(tmp_path: Path, standby: bool) -> None:
    store = AbsentStore(str(tmp_path))
    leaving = HardExit(JvmProcess(), store_needs_jvm=False)
    fence = Fence(store, LAYOUT, 1, leaving=leaving, last_word=lambda: None)
    epoch = make_epoch(standby=standby)
    made = barrier_of(epoch, store, LAYOUT, ending=ShutdownState(), fence=fence)
    assert (made is not None) is standby
