"""A hot standby becomes the driver of the epoch with its token, and ends when it is not wanted."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.driver.launch_context import LaunchContext
from airflow_streaming.driver.runtime import Driver
from airflow_streaming.driver.standby.promotion import (
    ORPHANED_AFTER,
    LaneSigns,
    PromotionBook,
    StandbyWatch,
    read_signs,
    reason_to_end,
)
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import Epoch, LaunchCause, OrderAct, StandbyOrder
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.fakes import NOON, make_epoch
from tests.unit.supervision.builders import a_deployment

SOURCE: Final = b"a script"
STANDBY: Final = replace(
    make_epoch(standby=True),
    number=3,
    stream="orders.standby",
    serves="orders",
    token="waiting",
    cause=LaunchCause.STANDBY,
)


def an_epoch(number: int, token: str = "another", **changes: Any) -> Epoch:  # noqa: S107
    own = {"promotes": 3, "standby": True} if token == "waiting" else {}
    return replace(make_epoch(), number=number, token=token, **{**own, **changes})


class Waiting:
    """The driver of a standby that has begun, without Spark."""

    def __init__(self, folder: Path) -> None:
        self.store = LocalStore(str(folder))
        self.home = StreamHome(self.store, "orders")
        self.standbys = self.home.standbys()
        self.home.create_deployment(
            a_deployment(
                number=STANDBY.deployment, application_sha256=hashlib.sha256(SOURCE).hexdigest()
            ),
            SOURCE,
        )
        self.home.create_epoch(an_epoch(1))
        self.home.create_epoch(an_epoch(2))
        self.standbys.create_epoch(STANDBY)
        assignment = LaunchContext(
            home=str(folder),
            epoch=STANDBY,
            deployment=self.home.deployment(STANDBY.deployment),
            source=SOURCE,
        )
        self.driver = Driver(assignment, self.store, Layout("orders.standby"))

    def look(self) -> None:
        """Read the orders, as a thread of the driver does again and again."""
        assert self.driver._barrier is not None
        self.driver._barrier.look()

    @property
    def is_held(self) -> bool:
        assert self.driver._barrier is not None
        return self.driver._barrier.is_closed


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return Waiting(tmp_path)


def test_it_becomes_the_driver_of_its_epoch_and_stays_at_the_barrier(waiting: Waiting) -> None:
    waiting.home.create_epoch(an_epoch(3))
    waiting.home.create_epoch(an_epoch(4, "waiting"))
    waiting.look()

    status = waiting.home.status(4)
    assert status is not None
    assert (status.token, status.stream, status.standby) == ("waiting", "orders", True)
    said = waiting.standbys.exit(3)
    assert said is not None
    assert said.outcome == "completed"
    assert waiting.is_held
    assert waiting.home.exit(4) is None


def test_only_an_order_to_its_epoch_releases_it(waiting: Waiting) -> None:
    order = StandbyOrder(epoch=3, number=1, act=OrderAct.RELEASE, at=NOON, by="a test")
    waiting.standbys.give_order(order)
    waiting.home.give_order(order)
    waiting.look()
    assert waiting.is_held

    waiting.home.create_epoch(an_epoch(3))
    waiting.home.create_epoch(an_epoch(4, "waiting"))
    waiting.look()
    assert waiting.is_held
    waiting.home.give_order(replace(order, epoch=4))
    waiting.look()
    assert not waiting.is_held
    assert waiting.home.answer(4, 1) is not None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"promotes": 2}, id="of another standby"),
        pytest.param({"promotes": None}, id="of no standby"),
        pytest.param({"deployment": 9}, id="of another deployment"),
        pytest.param({"stream": "payments"}, id="of another stream"),
    ],
)
def test_an_epoch_that_is_not_its_own_is_not_taken(
    waiting: Waiting, changes: dict[str, Any]
) -> None:
    waiting.home.create_epoch(an_epoch(3, "waiting", **changes))
    waiting.look()

    assert waiting.home.status(3) is None
    assert waiting.standbys.exit(3) is None


def test_a_record_that_cannot_be_read_is_not_its_own(waiting: Waiting) -> None:
    waiting.store.create("orders/epochs/000003.json", b"{")
    waiting.home.create_epoch(an_epoch(4, "waiting"))
    waiting.look()

    assert waiting.home.status(4) is not None


def test_an_adoption_that_fails_is_tried_again(tmp_path: Path) -> None:
    store, taken = LocalStore(str(tmp_path)), list[int]()

    def adopt(epoch: Epoch, _: Any) -> None:
        taken.append(epoch.number)
        if len(taken) == 1:
            raise HomeUnavailable("away")

    book = PromotionBook(store, STANDBY, adopt=adopt)
    StreamHome(store, "orders").create_epoch(an_epoch(1, "waiting"))
    with pytest.raises(HomeUnavailable):
        book.next()
    assert book.next() is None
    assert book.next() is None
    assert taken == [1, 1]


WANTED: Final = LaneSigns(
    desired=DesiredState.RUNNING, deployment=1, is_given_up=False, epoch=2, beat=7
)


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        pytest.param({}, False, id="wanted"),
        pytest.param({"desired": DesiredState.STOPPED}, True, id="stopped"),
        pytest.param({"is_given_up": True}, True, id="the circuit is open"),
        pytest.param({"deployment": 2}, True, id="another deployment"),
    ],
)
def test_what_the_lane_says_ends_it(changes: dict[str, Any], ends: bool) -> None:
    assert bool(reason_to_end(replace(WANTED, **changes), STANDBY)) is ends


FOR_CHANGE: Final = replace(STANDBY, change=4, deployment=2)


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        pytest.param({}, False, id="its deployment is not made yet"),
        pytest.param({"deployment": 2}, False, id="its deployment is made"),
        pytest.param({"deployment": 3}, True, id="a later deployment"),
        pytest.param({"is_given_up": True}, False, id="the circuit is the old driver's"),
        pytest.param({"is_change_over": True}, True, id="the change has ended"),
        pytest.param({"desired": DesiredState.STOPPED}, True, id="stopped"),
    ],
)
def test_one_that_an_upgrade_warmed_waits_for_that_change(
    changes: dict[str, Any], ends: bool
) -> None:
    assert bool(reason_to_end(replace(WANTED, **changes), FOR_CHANGE)) is ends


def test_the_signs_are_read_from_the_lane(waiting: Waiting) -> None:
    lane = Layout("orders")
    assert read_signs(waiting.store, lane) == replace(WANTED, deployment=STANDBY.deployment, beat=0)
    waiting.home.open_circuit(epoch=2, by="a test", reason="It failed.", now=NOON)
    waiting.home.want(DesiredState.STOPPED, by="ada", reason="Enough.", now=NOON)
    signs = read_signs(waiting.store, lane)
    assert (signs.desired, signs.is_given_up) == (DesiredState.STOPPED, True)


class Watched:
    def __init__(self) -> None:
        self.signs: LaneSigns | None = WANTED
        self.clock, self.reasons = 0.0, list[str]()
        self.watch = StandbyWatch(
            self.read, self.reasons.append, standby=STANDBY, clock=lambda: self.clock
        )

    def read(self) -> LaneSigns:
        if self.signs is None:
            raise HomeUnavailable("away")
        return self.signs

    def after(self, seconds: float) -> bool:
        self.clock += seconds
        self.watch.look()
        return bool(self.reasons)


def test_a_standby_of_a_stream_without_a_sign_of_life_ends() -> None:
    watched = Watched()
    assert not watched.after(1)
    watched.signs = replace(WANTED, beat=8)
    assert not watched.after(ORPHANED_AFTER)
    assert not watched.after(ORPHANED_AFTER - 1)
    assert watched.after(1)


def test_a_standby_of_a_home_that_cannot_be_read_ends_after_as_long() -> None:
    watched = Watched()
    assert not watched.after(1)
    watched.signs = None
    assert not watched.after(ORPHANED_AFTER - 1)
    assert watched.after(1)


def test_a_promoted_standby_does_not_end_by_that() -> None:
    watched = Watched()
    watched.watch.close()
    watched.signs = replace(WANTED, desired=DesiredState.STOPPED)
    assert not watched.after(timedelta(days=1).total_seconds())
