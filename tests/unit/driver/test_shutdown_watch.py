from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.jvm import JvmProcess
from airflow_streaming.driver.shutdown import (
    GRACE_VARIABLE,
    Fence,
    HardExit,
    StopWatcher,
    read_stop,
    signal_grace,
)
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import Epoch, StopRequest
from airflow_streaming.model.storage import LocalStore
from tests.patience import PATIENCE
from tests.unit.driver.fakes import LAYOUT, NOON, AbsentStore, make_epoch

REQUEST = StopRequest(epoch=1, by="ann", reason="Enough.", grace_seconds=5, requested_at=NOON)


class Left(BaseException):
    """The process would have ended."""


class World:
    """A watch whose process ends by an exception."""

    def __init__(self, store: LocalStore) -> None:
        self.store, self.ending, self.jvm = store, ShutdownState(), JvmProcess()
        self.said: list[str] = []
        self.codes: list[int] = []
        self.fence = Fence(
            store,
            LAYOUT,
            1,
            leaving=HardExit(self.jvm, store_needs_jvm=False, leave=self._leave),
            last_word=lambda: self.said.append("fenced"),
        )
        self.watch = StopWatcher(
            store,
            LAYOUT,
            1,
            ending=self.ending,
            fence=self.fence,
            jvm=self.jvm,
            on_jvm_gone=lambda: self.said.append("gone"),
        )

    def _leave(self, code: int) -> None:
        self.codes.append(code)
        raise Left


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return World(LocalStore(str(tmp_path)))


def test_nothing_happens_without_a_reason(world: World) -> None:
    world.watch.look()
    assert not world.ending.begun.is_set()
    assert world.said == []


def test_a_stop_request_is_found_with_its_grace(world: World) -> None:
    world.store.create(LAYOUT.epoch(1, "stop.json"), LAYOUT.bytes_of(REQUEST))
    world.watch.look()
    assert world.ending.stop is not None
    assert (world.ending.stop.by, world.ending.stop.grace) == ("ann", 5)


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(Layout("refunds").bytes_of(REQUEST), id="another stream"),
        pytest.param(Layout("orders.green").bytes_of(REQUEST), id="another lane"),
        pytest.param(LAYOUT.bytes_of(replace(REQUEST, epoch=2)), id="another epoch"),
    ],
)
def test_a_request_to_another_driver_stops_nothing(world: World, foreign: bytes) -> None:
    path = LAYOUT.epoch(1, "stop.json")
    world.store.create(path, foreign)
    world.watch.look()
    assert not world.ending.begun.is_set()
    world.store.replace(path, LAYOUT.bytes_of(REQUEST))
    world.watch.look()
    assert world.ending.begun.is_set()


def test_a_newer_epoch_ends_the_process_with_code_3_after_its_last_word(world: World) -> None:
    world.store.create(LAYOUT.place(Epoch, number=2), LAYOUT.bytes_of(make_epoch(2)))
    with pytest.raises(Left):
        world.watch.look()
    assert (world.said, world.codes) == (["fenced"], [3])


def test_a_home_that_is_away_is_no_reason_to_end(tmp_path: Path) -> None:
    world = World(AbsentStore(str(tmp_path)))
    world.watch.look()
    assert not world.ending.begun.is_set()
    assert world.codes == []


def test_a_dead_jvm_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.jvm, "is_gone", lambda: True)
    world.watch.look()
    assert world.said == ["gone"]


@pytest.fixture
def signals() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGCONT)}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_sigterm_wakes_the_watch_and_begins_a_stop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GRACE_VARIABLE, "12")
    world.watch.begin()
    assert any(thread.name == "airflow-streaming-watch" for thread in threading.enumerate())
    os.kill(os.getpid(), signal.SIGTERM)
    assert world.ending.begun.wait(PATIENCE)
    assert world.ending.stop is not None
    assert (world.ending.stop.by, world.ending.stop.grace) == ("SIGTERM", 12)


@pytest.mark.parametrize(
    ("data", "by", "grace"),
    [
        pytest.param(LAYOUT.bytes_of(REQUEST), "ann", 5.0, id="a request"),
        pytest.param(b"{half", "a stop request", 60.0, id="half a file"),
        pytest.param(
            LAYOUT.bytes_of(REQUEST).replace(b'"version": 1', b'"version": 9'),
            "a stop request",
            60.0,
            id="of a later release",
        ),
    ],
)
def test_a_stop_request_is_read_whatever_is_in_it(data: bytes, by: str, grace: float) -> None:
    stop = read_stop(LAYOUT, 1, data)
    assert (stop.by, stop.grace) == (by, grace)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", 60.0), ("90", 90.0), ("soon", 60.0), ("-5", 0.0)],
    ids=["empty", "seconds", "a word", "negative"],
)
def test_the_grace_of_a_signal_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: float
) -> None:
    monkeypatch.setenv(GRACE_VARIABLE, value)
    assert signal_grace() == expected
