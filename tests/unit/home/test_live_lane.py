"""Which lane is live: what a reader finds, before, while and after the pointer moves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_streaming.exceptions import HomeUnavailable, SpecError
from airflow_streaming.home.consumers import live
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.live import live as public_live
from airflow_streaming.live import live_together as public_live_together
from airflow_streaming.model.names import Color
from airflow_streaming.model.products.live_output import LiveOutput
from airflow_streaming.model.records.cutover_table import CutoverEvent
from airflow_streaming.model.storage import LocalStore
from tests.unit.home.make import NOON
from tests.unit.home.reigns import BACK, cut_over, deploy, record, take


def test_without_a_cutover_the_newest_deployment_of_the_stream_is_live(home: Home) -> None:
    deploy(home, "orders", 2)
    assert live_lane(home, "orders") == "orders"
    assert live(home, "orders", history=True) == LiveOutput(
        stream="orders", lane="orders", deployment=2, output="/lake/orders/2"
    )


def test_a_record_counts_from_the_moment_its_step_is_taken(home: Home) -> None:
    deploy(home, "orders.green", 1)
    home.stream("orders").point(record("orders.green"))
    assert live_lane(home, "orders") == "orders"
    take(home, 9)
    found = live(home, "orders")
    assert (found.lane, found.color, found.output) == (
        "orders.green",
        Color.GREEN,
        "/lake/orders.green/1",
    )
    assert found.since == NOON + timedelta(hours=1, minutes=9)
    assert live_lane(home, "orders.green") == "orders.green"


def test_a_record_never_counts_when_another_step_was_taken_in_its_place(home: Home) -> None:
    deploy(home, "orders.green", 1)
    home.stream("orders").point(record("orders.green"))
    take(home, 9, CutoverEvent.ABORT)
    assert live(home, "orders").lane == "orders"


def test_going_back_is_one_more_record(home: Home) -> None:
    deploy(home, "orders.green", 1)
    cut_over(home, "orders.green", 1)
    home.stream("orders").point(record("orders", step=11, event=BACK))
    assert live(home, "orders").lane == "orders.green"
    take(home, 11, BACK)
    found = live(home, "orders", history=True)
    assert (found.lane, found.number) == ("orders", 2)
    assert [(r.lane, r.since is None) for r in found.history] == [
        ("orders", True),
        ("orders.green", False),
    ]
    assert found.history[0].until == found.history[1].since
    assert found.history[1].until == found.since


def test_the_first_reign_ended_with_the_deployment_of_that_time(home: Home) -> None:
    deploy(home, "orders", 2)
    deploy(home, "orders.green", 1)
    cut_over(home, "orders.green", 1)
    deploy(home, "orders", 3, at=NOON + timedelta(days=1))
    assert [r.deployment for r in live(home, "orders", history=True).history] == [2]


def test_an_upgrade_in_the_live_lane_is_live_at_once(home: Home) -> None:
    deploy(home, "orders.green", 1)
    cut_over(home, "orders.green", 1)
    deploy(home, "orders.green", 2)
    assert (live(home, "orders").deployment, live(home, "orders").output) == (
        2,
        "/lake/orders.green/2",
    )


def test_pointing_twice_is_pointing_once_whoever_is_late(home: Home) -> None:
    deploy(home, "orders.green", 1)
    folder = home.stream("orders")
    first = cut_over(home, "orders.green", 1)
    folder.point(record("orders", step=11, event=BACK))
    take(home, 11, BACK)
    # The task that died before it saw its own record comes back to life.
    assert folder.point(record("orders.green", by="late", number=77)) == first
    assert live(home, "orders").lane == "orders"
    assert len(folder.live_records()) == 2


def test_a_late_word_of_an_earlier_cutover_is_found_beneath_later_ones(home: Home) -> None:
    deploy(home, "orders.green", 1)
    first = cut_over(home, "orders.green", 1)
    deploy(home, "orders", 2)
    cut_over(home, "orders", 2, deployment=2)
    assert home.stream("orders").point(record("orders.green", by="late")) == first
    assert live(home, "orders").lane == "orders"


def test_a_stream_that_nobody_knows_is_told_with_those_that_are(home: Home) -> None:
    with pytest.raises(
        SpecError, match=r"Stream 'order' does not exist in .*Existing streams: orders"
    ):
        live(home, "order")


def test_a_lane_whose_deployment_is_gone_is_not_guessed(home: Home) -> None:
    cut_over(home, "orders.green", 1)
    with pytest.raises(HomeUnavailable, match="Check that the home is mounted whole"):
        live(home, "orders")


def test_the_public_function_needs_only_the_home(home: Home) -> None:
    assert public_live("orders", home=home.store.uri) == live(home, "orders")
    assert public_live_together(["orders"], home=home.store.uri)["orders"].lane == "orders"


def test_a_home_may_come_from_the_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_STREAMING_HOME", raising=False)
    with pytest.raises(SpecError, match="Which home"):
        public_live("orders")
    monkeypatch.setenv("AIRFLOW_STREAMING_HOME", home.store.uri)
    assert public_live("orders").lane == "orders"


def test_a_lane_of_a_lane_is_no_stream(home: Home) -> None:
    deploy(home, "orders.green", 1)
    with pytest.raises(SpecError, match="is a lane already"):
        live(home, "orders.green.green")


@pytest.mark.parametrize("name", ["x" * 87, "a.", "x" * 93])
def test_what_no_stream_can_be_called_is_refused_by_the_name_that_was_given(
    home: Home, name: str
) -> None:
    with pytest.raises(SpecError, match=f"Stream name '{name}' cannot be used for folders"):
        live(home, name)


class Counting(LocalStore):
    """A store that counts what it is asked."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.asked: list[str] = []

    def names(self, folder: str) -> list[str]:
        self.asked.append("list")
        return super().names(folder)

    def read(self, path: str) -> bytes | None:
        self.asked.append("read")
        return super().read(path)


def test_it_is_cheap_to_ask(tmp_path: object) -> None:
    store = Counting(str(tmp_path))
    home = Home(store)

    def cost(ask: Callable[[Home, str], object]) -> tuple[int, int]:
        store.asked.clear()
        ask(home, "orders")
        return store.asked.count("list"), store.asked.count("read")

    deploy(home, "orders", 1)
    # One listing tells that there is no second lane, so that nothing can have been lost; another one
    # finds the plans, which name topics and tables.
    assert (cost(live_lane), cost(live)) == ((2, 0), (5, 1))
    deploy(home, "orders.green", 1)
    for change in range(1, 6):
        cut_over(home, ("orders", "orders.green")[change % 2], change)
    assert (cost(live_lane), cost(live)) == ((2, 2), (5, 3))
    # However many cutovers there were, one more pointer is a few reads.
    assert cost(lambda home, _: home.stream("orders").point(record("orders", change=6))) == (2, 2)
