"""
A hot standby's promotion to an epoch, and its end when it is no longer needed.

A hot standby has a number of its own and no epoch. It reads the new epochs of its lane one by one.
The epoch with its token is its own: from then on it is that epoch's driver, at the barrier, and
fenced by the next epoch. Any other epoch belongs to another driver.

A standby that an upgrade has warmed belongs to the proposed deployment and waits for that change
alone.

No record renews the request for a standby. The lane's home shows the need: the stream's desired
state is running, on this deployment, with a closed circuit, and an epoch of it begins or beats from
time to time. An unreadable home gives no sign. After ten minutes without a sign the standby ends,
so the next restart is a cold start.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from airflow_streaming.driver.errors import ErrorBoundary, logger
from airflow_streaming.driver.lease import instant
from airflow_streaming.driver.standby.barrier import OrderBook
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.lease import Instant
from airflow_streaming.model.names import Layout, number_of, numbered
from airflow_streaming.model.records.control import ChangeEnd, Circuit, Desired, DesiredState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, StandbyOrder
from airflow_streaming.model.status import Status
from airflow_streaming.model.storage import Store
from airflow_streaming.model.wire import Record

R = TypeVar("R", bound=Record)

ORPHANED_AFTER: Final = 600.0
"""Seconds without any sign of the stream after which a standby ends."""


class PromotionBook(OrderBook):
    """
    The orders to a hot standby: none before it is promoted, then those to its epoch's driver.

    Make it before the first heartbeat: only a standby that has beaten is ever promoted, so none of
    the epochs that are there is this driver's.

    :param standby: The record of the standby.
    :param adopt: Makes this process the driver of an epoch, which was read after the given moment.
    """

    def __init__(
        self, store: Store, standby: Epoch, *, adopt: Callable[[Epoch, Instant], None]
    ) -> None:
        super().__init__(store, Layout(standby.stream), standby.number)
        self._standby, self._adopt = standby, adopt
        self._lane = Layout(standby.serves)
        self._seen = newest_number(store, self._lane.folder(Epoch))
        self._is_promoted = False

    def next(self) -> StandbyOrder | None:
        if not self._is_promoted:
            self._look()
        return super().next() if self._is_promoted else None

    def _look(self) -> None:
        while True:
            began, path = instant(), self._lane.place(Epoch, number=self._seen + 1)
            data = self._store.read(path)
            if data is None:
                return
            epoch = self._epoch_in(data, path)
            if epoch is not None and is_promotion(epoch, self._standby):
                break
            self._seen += 1
        self._adopt(epoch, began)
        self._layout, self._epoch = self._lane, epoch.number
        self._is_promoted = True

    def _epoch_in(self, data: bytes, path: str) -> Epoch | None:
        try:
            return self._lane.parse(Epoch, data, number=self._seen + 1)
        except RecordError as err:
            logger.warning("%s cannot be read, so it is not this driver's: %s", path, err)
            return None


def is_promotion(epoch: Epoch, standby: Epoch) -> bool:
    """Tell whether an epoch makes a standby its driver."""
    return (
        epoch.token == standby.token
        and epoch.promotes == standby.number
        and (epoch.stream, epoch.deployment) == (standby.serves, standby.deployment)
    )


def newest_number(store: Store, folder: str) -> int:
    """Return the largest number of a kind of record, 0 without records."""
    return max((number_of(name) or 0 for name in store.names(folder)), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSigns:
    """
    The records of a lane that matter to its standby.

    :param deployment: Number of the newest deployment.
    :param is_given_up: The circuit is open.
    :param is_change_over: The standby's change has ended, or its end is decided.
    :param epoch: Number of the newest epoch, and ``beat`` its heartbeat; each change is a sign of
        life.
    """

    desired: DesiredState
    deployment: int
    is_given_up: bool
    epoch: int
    beat: int
    is_change_over: bool = False


def read_signs(store: Store, lane: Layout, change: int | None = None) -> LaneSigns:
    """
    Read the records of a lane.

    :param change: Number of the standby's change.
    :raises HomeUnavailable: they cannot be read.
    """
    desired = _newest(Desired, store, lane)
    circuit = _newest(Circuit, store, lane)
    epoch = newest_number(store, lane.folder(Epoch))
    status = store.read(lane.place(Status, epoch=epoch)) if epoch else None
    return LaneSigns(
        desired=desired.state if desired is not None else DesiredState.RUNNING,
        deployment=newest_number(store, lane.folder(Deployment)),
        is_given_up=circuit is not None and circuit.holds(epoch or None),
        epoch=epoch,
        beat=0 if status is None else lane.parse(Status, status, epoch=epoch).beat,
        is_change_over=change is not None and _is_over(store, lane, change),
    )


def _is_over(store: Store, lane: Layout, change: int) -> bool:
    if store.read(lane.place(ChangeEnd, number=change)) is not None:
        return True
    # Only a driver that an upgrade has warmed needs its table.
    from airflow_streaming.model.records.upgrade_table import UpgradeTransition

    folder = lane.folder(UpgradeTransition, change=change)
    number = newest_number(store, folder)
    data = store.read(f"{folder}/{numbered(number)}.json") if number else None
    if data is None:
        return False
    return lane.parse(UpgradeTransition, data, change=change, number=number).after.is_decided


def _newest(cls: type[R], store: Store, lane: Layout) -> R | None:
    number = newest_number(store, lane.folder(cls))
    data = store.read(lane.place(cls, number=number)) if number else None
    return None if data is None else lane.parse(cls, data, number=number)


def reason_to_end(signs: LaneSigns, standby: Epoch) -> str:
    """Return why a standby is not wanted, empty when it is."""
    if signs.desired is DesiredState.STOPPED:
        return 'Desired state is "stopped".'
    if standby.change is not None:
        # Its deployment is made when it is about to take over; the circuit is the old driver's.
        over = f"Change {standby.change} does not wait for it any more."
        return over if signs.is_change_over or signs.deployment > standby.deployment else ""
    if signs.is_given_up:
        return "The circuit is open."
    if signs.deployment != standby.deployment:
        return f"Deployment {signs.deployment} replaces deployment {standby.deployment}."
    return ""


class StandbyWatch:
    """
    Ends a hot standby that is no longer needed.

    :param end: Ends the standby with a reason; does nothing after its promotion.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        read: Callable[[], LaneSigns],
        end: Callable[[str], None],
        *,
        standby: Epoch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._end, self._standby, self._clock = read, end, standby, clock
        self._heard: tuple[int, int] | None = None
        self._since = clock()
        self._over = threading.Event()
        self._faults = ErrorBoundary()

    def begin(self, every: float) -> None:
        """Look every so many seconds, in a thread of its own."""

        def run() -> None:
            while not self._over.wait(every):
                self.look()

        threading.Thread(target=run, name="airflow-streaming-wanted", daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def look(self) -> None:
        """Look once."""
        reason = ""
        with self._faults.contained("Checking whether the standby is still needed"):
            signs = self._read()
            reason = reason_to_end(signs, self._standby)
            if (signs.epoch, signs.beat) != self._heard:
                self._heard, self._since = (signs.epoch, signs.beat), self._clock()
        silence = self._clock() - self._since
        if not reason and silence >= ORPHANED_AFTER:
            reason = f"The stream has shown no sign of life for {silence:.0f} s."
        if reason and not self._over.is_set():
            self._end(reason)
