"""The driver follows pauses between batches, and ends each of them by itself."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.pausing.decide import Hold, PauseView, decide_hold
from airflow_streaming.driver.pausing.pause_watch import PauseWatch
from airflow_streaming.exceptions import StopRequested
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import BatchPause, BatchPauseEnd
from tests.patience import PATIENCE, until
from tests.unit.driver.fakes import LAYOUT, NOON, AbsentStore
from tests.unit.driver.test_batch_lock import RunningQuery, moves

PAUSE = BatchPause(number=1, by="ann", reason="vacuum", at=NOON, begin_within=60.0, longest=300.0)


@pytest.mark.parametrize(
    ("changes", "later", "expected"),
    [
        pytest.param({}, 0, Hold.HOLD, id="just_opened"),
        pytest.param({"known_for": 59.0}, 59, Hold.HOLD, id="waits_for_a_batch"),
        pytest.param({"known_for": 60.0}, 60, Hold.TOO_LATE, id="the_batch_lasts"),
        pytest.param({"known_for": 300.0, "held_for": 240.0}, 300, Hold.HOLD, id="held"),
        pytest.param({"known_for": 310.0, "held_for": 300.0}, 310, Hold.OVER, id="held_its_length"),
        pytest.param({"held_for": 1.0, "is_closed": True}, 5, Hold.CLOSED, id="closed"),
        pytest.param({"known_for": 90.0, "is_closed": True}, 90, Hold.CLOSED, id="closed_late"),
        pytest.param(
            {"known_for": 1.0, "held_for": 1.0}, 359, Hold.HOLD, id="a_driver_of_the_middle"
        ),
        pytest.param({"known_for": 1.0, "held_for": 1.0}, 360, Hold.OVER, id="its_end_by_the_day"),
        pytest.param({"known_for": 1.0}, 361, Hold.TOO_LATE, id="found_when_over"),
        pytest.param({"known_for": 310.0, "held_for": 300.0}, -900, Hold.OVER, id="clock_behind"),
        pytest.param({"known_for": 60.0}, -900, Hold.TOO_LATE, id="late_with_a_clock_behind"),
        pytest.param({"known_for": 20.0, "held_for": 10.0}, 900, Hold.OVER, id="clock_ahead"),
    ],
)
def test_a_window_is_bounded_by_two_clocks(
    changes: dict[str, Any], later: float, expected: Hold
) -> None:
    asked = {"is_closed": False, "known_for": 0.0, "held_for": None, **changes}
    view = PauseView(pause=PAUSE, now=NOON + timedelta(seconds=later), **asked)

    assert decide_hold(view) is expected


class Query:
    """A query of the script over a simulated Spark."""

    def __init__(self, name: str = "q", refusal: str = "") -> None:
        self.name = self.run_id = name
        self.lock = RunningQuery()
        self.notes: list[float | None] = []
        self.lock.refusal = lambda: refusal  # type: ignore[method-assign]
        self.lock.lasts = 0.001
        self.lock.begin()

    def is_running(self) -> bool:
        return self.lock.is_active

    def batch_lock(self) -> RunningQuery:
        return self.lock

    def note_pause(self, seconds: float | None) -> None:
        self.notes.append(seconds)


class Driver:
    """A driver with a home that can go away, and clocks that the test moves."""

    def __init__(self, folder: Path, *queries: Query) -> None:
        self.store = AbsentStore(str(folder))
        self.store.present = True
        self.home = StreamHome(self.store, "orders")
        self.queries = list(queries)
        self.ending = threading.Event()
        self.seconds = 0.0
        self.watch = PauseWatch(
            self.store,
            LAYOUT,
            queries=lambda: self.queries,
            is_ending=self.ending.is_set,
            on_lost=pytest.fail,
            clock=lambda: self.seconds,
            now=lambda: NOON + timedelta(seconds=self.seconds),
        )

    def open(self, **changes: Any) -> BatchPause:
        now = NOON + timedelta(seconds=self.seconds)
        return self.home.begin_pause(replace(PAUSE, at=now, **changes), now)

    def close(self, number: int) -> None:
        end = BatchPauseEnd(number=number, by="ann", reason="done", at=NOON)
        assert self.home.end_pause(end)

    def is_held(self) -> bool:
        self.watch.look()
        status = self.watch.status()
        return status is not None and status.is_held

    def stop(self) -> None:
        self.ending.set()
        self.watch.release()
        for query in self.queries:
            query.lock.stop()


@pytest.fixture
def driver(tmp_path: Path) -> Any:
    made = Driver(tmp_path, Query("a"), Query("b"))
    yield made
    made.stop()


def test_every_query_is_held_and_continues_after_the_end(driver: Driver) -> None:
    pause = driver.open()
    until(driver.is_held, "the hold", every=0.01)
    seen = [(query.lock.planned, query.lock.committed) for query in driver.queries]

    assert all(planned == committed for planned, committed in seen)
    driver.close(pause.number)
    driver.watch.look()
    assert driver.watch.status() is None
    for query in driver.queries:
        moves(query.lock)
        assert query.notes[0] is None, "its figures leave the pause out"
        assert query.notes[1] is not None


def test_two_pauses_one_after_the_other(driver: Driver) -> None:
    for _ in range(2):
        pause = driver.open()
        until(driver.is_held, "the hold", every=0.01)
        driver.close(pause.number)
        driver.watch.look()
        assert driver.watch.status() is None
    moves(driver.queries[0].lock)


@pytest.mark.parametrize("is_away", [False, True], ids=["home_there", "home_away"])
def test_a_window_without_an_end_is_over_after_its_length(driver: Driver, is_away: bool) -> None:
    driver.open()
    until(driver.is_held, "the hold", every=0.01)
    driver.store.present = not is_away
    driver.seconds += 299
    assert driver.is_held()
    driver.seconds += 1
    assert not driver.is_held()
    moves(driver.queries[0].lock)
    driver.store.present = True
    assert not driver.is_held(), "the same pause counts once"


def test_a_long_batch_ends_the_wait_of_a_window(driver: Driver) -> None:
    driver.queries[0].lock.lasts = 0.4
    begun = driver.queries[0].lock.begun
    until(lambda: driver.queries[0].lock.begun > begun, "a batch", every=0.01)
    driver.open()
    driver.watch.look()
    status = driver.watch.status()
    assert status is not None
    assert not status.is_held
    assert "a" in status.waits_for
    driver.seconds += 60
    driver.watch.look()
    assert driver.watch.status() is None
    moves(driver.queries[0].lock)


def test_a_query_that_cannot_be_held_lets_the_others_continue(tmp_path: Path) -> None:
    driver = Driver(tmp_path, Query("a"), Query("fast", "runs in real-time mode"))
    driver.open()
    driver.watch.look()
    status = driver.watch.status()

    assert status is not None
    assert status.refusal == "Query 'fast' runs in real-time mode."
    assert not driver.watch.is_open
    moves(driver.queries[0].lock)
    driver.stop()


def test_the_end_of_the_driver_releases_every_query(driver: Driver) -> None:
    driver.open()
    until(driver.is_held, "the hold", every=0.01)
    driver.ending.set()
    driver.watch.release()
    moves(driver.queries[0].lock)
    driver.watch.look()

    assert driver.watch.status() is None


def test_a_query_that_ends_in_a_window_is_not_waited_for(driver: Driver) -> None:
    driver.queries[0].lock.stop()
    driver.open()
    until(driver.is_held, "the hold", every=0.01)


def test_a_driver_that_is_started_in_a_window_waits_before_its_first_query(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    pause = driver.open()
    started = threading.Event()

    def start() -> None:
        driver.watch.wait_to_start()
        started.set()

    threading.Thread(target=start, daemon=True).start()
    until(lambda: driver.watch.is_open, "the pause", every=0.01)
    assert driver.is_held()
    assert not started.wait(0.3)
    driver.close(pause.number)
    driver.watch.look()

    assert started.wait(PATIENCE)


def test_a_stop_ends_the_wait_for_a_start(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.open()
    driver.watch.look()
    driver.ending.set()

    with pytest.raises(StopRequested):
        driver.watch.wait_to_start()


def test_an_unreadable_window_is_passed_over(driver: Driver) -> None:
    driver.store.create("orders/batch_pauses/000001.json", b"{}")
    driver.watch.look()
    assert driver.watch.status() is None
    driver.store.create(
        "orders/batch_pauses/000002.json", LAYOUT.bytes_of(replace(PAUSE, number=2))
    )

    until(driver.is_held, "the hold", every=0.01)


def test_a_window_that_was_closed_before_is_not_held(driver: Driver) -> None:
    driver.close(driver.open().number)
    driver.watch.look()

    assert driver.watch.status() is None
