"""Pages ask a store again only for what may have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.model.storage import LocalStore
from airflow_streaming.plugins.access.page_store import FRESH, SHORTLY, PageStore
from benchmarks.streams_page import Counting


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def under(tmp_path: Path) -> Counting:
    return Counting(LocalStore(str(tmp_path)))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(under: Counting, clock: Clock) -> PageStore:
    return PageStore(under, clock=clock)


def asked(under: Counting) -> int:
    return sum(under.asked.values())


@pytest.mark.parametrize(
    ("path", "times"),
    [
        ("orders/epochs/000001.json", 1),
        ("orders/epochs/000001/launch.json", 1),
        ("orders/events/20261122T173316.452137Z-fbcf52f8.json", 1),
        ("orders/epochs/000001/status.json", 2),
        ("orders/epochs/000001/progress/000001.jsonl", 2),
    ],
)
def test_only_what_is_created_once_is_kept_for_long(
    under: Counting, store: PageStore, clock: Clock, path: str, times: int
) -> None:
    under.store.create(path, b"{}")
    assert [store.read(path), store.read(path)] == [b"{}", b"{}"]
    assert asked(under) == 1
    clock.now += SHORTLY
    assert store.read(path) == b"{}"
    assert asked(under) == times


def test_what_a_driver_has_written_again_is_seen_shortly_after(
    under: Counting, store: PageStore, clock: Clock
) -> None:
    path = "orders/epochs/000001/status.json"
    under.store.replace(path, b"1")
    store.read(path)
    under.store.replace(path, b"2")
    clock.now += SHORTLY
    assert store.read(path) == b"2"


def test_what_is_missing_is_asked_for_again_after_some_seconds(
    under: Counting, store: PageStore, clock: Clock
) -> None:
    assert store.read("orders/desired/000001.json") is None
    under.store.create("orders/desired/000001.json", b"{}")
    assert store.read("orders/desired/000001.json") is None
    clock.now += FRESH
    assert store.read("orders/desired/000001.json") == b"{}"
    assert asked(under) == 2


def test_a_listing_answers_for_names_that_it_does_not_have(
    under: Counting, store: PageStore
) -> None:
    under.store.create("orders/owners/000001.json", b"{}")
    assert store.names("orders/owners") == ["000001.json"]
    assert store.read("orders/owners/000002.json") is None
    assert store.read("orders/owners/000001.json") == b"{}"
    # The home and the stream were listed first: what they do not have costs nothing.
    assert under.asked == {"list": 3, "read": 1}
    assert store.names("orders/circuit") == []
    assert store.read("orders/circuit/000001.json") is None
    assert store.names("orders.green") == []
    assert under.asked == {"list": 3, "read": 1}


def test_an_absent_folder_is_no_fresher_than_the_listing_that_lacks_it(
    under: Counting, store: PageStore, clock: Clock
) -> None:
    under.store.create("orders/owners/000001.json", b"{}")
    store.names("orders")
    clock.now += FRESH / 2
    assert store.names("orders/circuit") == []
    under.store.create("orders/circuit/000001.json", b"{}")
    clock.now += FRESH / 2
    assert store.names("orders/circuit") == ["000001.json"]


def test_what_is_done_through_it_is_seen_at_once(under: Counting, store: PageStore) -> None:
    assert store.read("orders/desired/000001.json") is None
    assert store.names("orders/desired") == []
    store.store = under.store
    store.create("orders/desired/000001.json", b"{}")
    assert store.read("orders/desired/000001.json") == b"{}"
    assert store.names("orders/desired")
