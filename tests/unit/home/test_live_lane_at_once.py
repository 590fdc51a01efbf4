"""The pointer while it moves: several who point, and readers who race with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.consumers import live, live_together
from airflow_streaming.home.home import Home
from airflow_streaming.model.records.cutover import LiveRecord
from airflow_streaming.model.storage import LocalStore
from tests.unit.home.reigns import cut_over, deploy, output_of, record, take
from tests.unit.racing import at_once, read_during


def test_of_many_who_point_at_once_one_record_stands(home: Home) -> None:
    found: list[LiveRecord] = []

    def point(by: str) -> None:
        found.append(home.stream("orders").point(record("orders.green", by=by)))

    at_once(*[partial(point, f"task {n}") for n in range(8)])
    assert len(set(map(repr, found))) == 1
    assert home.stream("orders").live_records() == found[:1]


class Meddling(LocalStore):
    """A store in which something happens right after a folder was listed."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.then: list[tuple[str, Callable[[], None]]] = []

    def names(self, folder: str) -> list[str]:
        found = super().names(folder)
        if self.then and folder == self.then[0][0]:
            self.then.pop(0)[1]()
        return found


def test_a_look_during_which_the_pointer_moves_is_taken_again(tmp_path: object) -> None:
    store = Meddling(str(tmp_path))
    home = Home(store)
    deploy(home, "orders", 1)
    deploy(home, "orders.green", 1)
    home.stream("orders").point(record("orders.green"))
    # Between the look at the pointer and the look at the lane's deployment.
    store.then = [("orders/deployments", lambda: (take(home, 9), deploy(home, "orders", 2))[1])]
    assert live(home, "orders").output == "/lake/orders.green/1"


def test_a_pointer_that_never_rests_is_an_error_with_a_way_out(tmp_path: object) -> None:
    store = Meddling(str(tmp_path))
    home = Home(store)
    deploy(home, "orders", 1)
    deploy(home, "orders.green", 1)

    def move(change: int) -> None:
        cut_over(home, ("orders", "orders.green")[change % 2], change)

    store.then = [
        *[("orders/deployments", lambda: move(1))],
        *[
            (f"{('orders', 'orders.green')[n % 2]}/deployments", partial(move, n + 1))
            for n in range(1, 25)
        ],
    ]
    with pytest.raises(HomeUnavailable, match="moved during each of 20 looks"):
        live(home, "orders")


def test_streams_that_move_together_are_never_seen_apart(home: Home) -> None:
    """Readers race with forty switches of two streams by one step each."""
    deploy(home, "payments", 1)
    for lane in ("orders.green", "payments.green"):
        deploy(home, lane, 1)
    seen, halves = set(), []

    def read() -> None:
        found = live_together(home, ["orders", "payments"])
        seen.add(found["orders"].lane)
        colors = {one.color for one in found.values()}
        whole = all(one.output == output_of(one.lane, 1) for one in found.values())
        if len(colors) != 1 or not whole:
            halves.append(found)

    def write(change: int) -> None:
        suffix = ".green" if change % 2 else ""
        for stream in ("orders", "payments"):
            home.stream(stream).point(record(f"{stream}{suffix}", change=change))
        take(home, 9, change=change)

    read_during(write, read, times=40, enough=lambda: bool(halves) or len(seen) == 2, readers=3)
    assert halves == []
    assert seen == {"orders", "orders.green"}
