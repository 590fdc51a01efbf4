"""A look asks the store once for what it reads, sees what the store has, and writes through."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.storage.one_look import (
    Listing,
    OneLook,
    in_processes,
    look_at_each,
    workers_for,
)
from tests.unit.home.make import SCRIPT, make_deployment, make_epoch


class Counting(LocalStore):
    """A store that counts what it is asked for."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.asked: list[str] = []

    def read(self, path: str) -> bytes | None:
        self.asked.append(path)
        return super().read(path)

    def names(self, folder: str) -> list[str]:
        self.asked.append(folder)
        return super().names(folder)


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    store = Counting(str(tmp_path))
    stream = StreamHome(store, "orders")
    stream.create_deployment(make_deployment(), SCRIPT)
    stream.create_epoch(make_epoch(1))
    store.asked.clear()
    return store


def test_a_look_reads_what_the_store_has(store: Counting) -> None:
    looked, direct = StreamHome(OneLook(store), "orders"), StreamHome(store, "orders")

    assert looked.newest_deployment() == direct.newest_deployment()
    assert looked.newest_epoch() == direct.newest_epoch()
    assert looked.status(1) == direct.status(1) is None
    assert looked.desired() == direct.desired() is None
    assert looked.beside("orders.green").newest_deployment() is None


def test_nothing_is_asked_for_twice_nor_in_folders_that_are_not_there(store: Counting) -> None:
    stream = StreamHome(OneLook(store, Listing(["orders"])), "orders")
    for _ in range(3):
        stream.newest_deployment()
        stream.newest_epoch()
        stream.desired()
        stream.circuit()
        stream.beside("orders.green").newest_deployment()

    assert len(store.asked) == len(set(store.asked))
    assert sorted(store.asked) == [
        *("orders", "orders/deployments", "orders/deployments/000001.json"),
        *("orders/epochs", "orders/epochs/000001.json"),
    ]


def test_a_file_that_a_listing_does_not_show_is_not_read(store: Counting) -> None:
    look = OneLook(store)
    look.names("orders/epochs")
    store.asked.clear()

    assert look.read("orders/epochs/000009.json") is None
    assert store.asked == []


def test_what_is_written_is_seen(store: Counting) -> None:
    look = OneLook(store)
    stream = StreamHome(look, "orders")
    stream.newest_epoch()
    stream.create_epoch(make_epoch(2))

    newest = stream.newest_epoch()
    assert newest is not None
    assert newest.number == 2
    look.replace("orders/epochs/000002/status.json", b"{}")
    assert look.read("orders/epochs/000002/status.json") == b"{}"
    look.delete("orders/epochs/000002/status.json")
    assert look.read("orders/epochs/000002/status.json") is None


@pytest.mark.parametrize("uri", ["/srv/home", "s3://bucket/home"])
def test_each_item_is_looked_at_in_order(uri: str) -> None:
    store = LocalStore("/srv/home")
    store.uri = uri

    assert look_at_each(store, lambda one: one * 2, range(50)) == [n * 2 for n in range(50)]


def test_processes_return_results_in_order_and_errors_as_they_are() -> None:
    def act(one: int) -> tuple[int, int]:
        if one == 1_000:
            raise RecordError("Damaged.")
        return one * 2, os.getpid()

    found = in_processes(act, range(200), 2)

    assert [result for result, _ in found] == [n * 2 for n in range(200)]
    assert os.getpid() not in {process for _, process in found}
    with pytest.raises(RecordError, match="Damaged"):
        in_processes(act, [1_000], 2)


def test_processes_end_without_a_word_where_the_command_handles_signals(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        in_processes(str, range(200), 2)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("items", "processors", "workers"),
    [(0, 4, 1), (499, 4, 1), (500, 4, 2), (10_000, 4, 4), (10_000, 1, 1), (10_000, 64, 8)],
)
def test_few_streams_are_worth_no_process(items: int, processors: int, workers: int) -> None:
    assert workers_for(items, processors) == workers


class Compared(str):
    """A name that counts how often it is compared with another."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_a_look_at_one_of_many_streams_does_not_scan_the_names_of_all(store: Counting) -> None:
    root = Listing([Compared(f"orders_{number:04d}") for number in range(2_000)])
    Compared.times = 0

    for number in range(20):
        look = OneLook(store, root)
        stream = StreamHome(look, f"orders_{number:04d}")
        stream.newest_deployment()
        stream.beside(f"orders_{number:04d}.green").newest_deployment()

    assert Compared.times < 200
