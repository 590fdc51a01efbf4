"""
The barrier: where the queries of a standby driver wait just before they start.

Each ``start()`` of the script waits in the calling thread, or in a separate thread while more
queries are to come. Another thread reads the orders and writes the answers. A waiting query does
its part of an order in its own thread, because only this thread has the plan that Spark needs for
it.

The last order releases all queries, also queries that come later. After it, the driver is like any
other. The query's claim, which outlives this driver, holds the fast-forward at its start and the
shift of its batch ids.

To Spark, each absorbed batch is a separate query, which ends. A script that waits in another thread
than the thread that starts its queries would see it as the end of its own query.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from airflow_streaming.driver.errors import ErrorBoundary, logger
from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.patching import patch_method
from airflow_streaming.driver.script import error_of
from airflow_streaming.driver.shutdown import Fence
from airflow_streaming.exceptions import AlreadyExists, RecordError, StopRequested
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import (
    Barrier,
    Epoch,
    OrderAct,
    StandbyAnswer,
    StandbyOrder,
)
from airflow_streaming.model.spark.failures import presentable
from airflow_streaming.model.storage import LocalStore, Store

LOOK_SECONDS: Final = 0.1
"""How often a home on this host is read for the next order."""
LOOK_SECONDS_AWAY: Final = 0.3
"""The same for a home on an object store, where a look is a request."""
LOOK_SECONDS_WAITING: Final = 1.0
"""The same of a hot standby, which may wait for months."""
Absorb = Callable[[int], int]
"""Runs one planned batch with its output thrown away; returns the batch that is committed then."""


class OrderBook:
    """The orders to one standby driver."""

    def __init__(self, store: Store, layout: Layout, epoch: int) -> None:
        self._store, self._layout, self._epoch = store, layout, epoch
        self.number = 1
        """Number of the order that is in work, or that comes next."""

    def next(self) -> StandbyOrder | None:
        """
        Return the order that has not been answered yet, if any.

        :raises RecordError: it is unreadable, or its content does not match its name.
        """
        path = self._layout.place(StandbyOrder, epoch=self._epoch, number=self.number)
        data = self._store.read(path)
        if data is None:
            return None
        try:
            return self._layout.parse(StandbyOrder, data, epoch=self._epoch, number=self.number)
        except RecordError as err:
            raise RecordError(
                f"{self._store.uri}/{path} is not a valid order to this driver: {err}"
            ) from err

    def answer(self, *, committed: dict[str, int], error: str) -> None:
        """Answer the current order, and take the next one."""
        answer = StandbyAnswer(
            epoch=self._epoch,
            number=self.number,
            at=datetime.now(UTC),
            committed=committed,
            error=error,
        )
        path = self._layout.place(StandbyAnswer, epoch=self._epoch, number=self.number)
        # A store's reply may get lost; an existing record is our own then.
        with contextlib.suppress(AlreadyExists):
            self._store.create(path, self._layout.bytes_of(answer))
        self.number += 1

    def show(self, queries: Sequence[str]) -> None:
        barrier = Barrier(epoch=self._epoch, queries=tuple(queries), at=datetime.now(UTC))
        self._store.replace(
            self._layout.place(Barrier, epoch=self._epoch), self._layout.bytes_of(barrier)
        )


@dataclass(slots=True)
class _InWork:
    """
    An order and its progress.

    :param open: Queries that have not done their part yet; ``doing``: queries that are working on
        it.
    """

    order: StandbyOrder
    open: set[str] = field(default_factory=set)
    doing: set[str] = field(default_factory=set)
    committed: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class StandbyBarrier:
    """
    Holds queries back until they are released.

    :param check_fence: Returns only if this epoch is the newest.
    :param expected: Names of the queries that will wait here.
    :param look_seconds: Interval between reads of the orders.
    """

    def __init__(
        self,
        orders: OrderBook,
        *,
        ending: ShutdownState,
        check_fence: Callable[[], None],
        expected: Iterable[str] = (),
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._orders, self._ending, self._check_fence = orders, ending, check_fence
        self._to_come = set(expected)
        self._look_seconds = look_seconds
        self._changed, self._wake = threading.Condition(), threading.Event()
        self._waiting: list[str] = []
        self._shown: list[str] = []
        self._work: _InWork | None = None
        self._is_released = False
        self._over = threading.Event()
        self._faults = ErrorBoundary()

    @property
    def is_closed(self) -> bool:
        """Tell whether queries are held back still."""
        return not self._is_released

    def sets_aside(self, query: str) -> bool:
        """
        Note that a query comes, and tell whether it is to wait beside the script for others to come.

        The last one keeps the script, which is to do nothing after its last start before that is
        released.
        """
        with self._changed:
            self._to_come.discard(query)
            return self.is_closed and bool(self._to_come)

    def begin(self) -> None:
        """Start reading orders."""
        threading.Thread(target=self._run, name="airflow-streaming-orders", daemon=True).start()

    def await_release(self) -> None:
        """Return when the queries were released, or the end has begun."""
        with self._changed:
            while self.is_closed and not self._ending.begun.is_set():
                self._changed.wait(LOOK_SECONDS)

    def wait(self, query: str, absorb: Absorb) -> None:
        """Wait until the query may start, and carry out orders meanwhile."""
        with self._changed:
            self._waiting.append(query)
        self._wake.set()
        try:
            while (work := self._await_work(query)) is not None:
                self._do(work, query, absorb)
        finally:
            with self._changed:
                self._waiting.remove(query)
        # It may have been suspended for as long as it waited.
        self._check_fence()

    def look(self) -> None:
        """Report the waiting queries, take the next order, and answer the finished one."""
        with self._changed:
            waiting = list(self._waiting)
        if self.is_closed and waiting != self._shown:
            self._orders.show(waiting)
            self._shown = waiting
        if self._work is None:
            self._take()
        with self._changed:
            work = self._work
            is_done = work is not None and not work.open | work.doing
        if work is not None and is_done:
            self._answer(work)

    def _run(self) -> None:
        while not self._over.is_set() and not self._ending.begun.is_set():
            with self._faults.contained("Reading the orders of a standby driver"):
                self.look()
            if self._wake.wait(self._look_seconds):
                self._wake.clear()

    def _await_work(self, query: str) -> _InWork | None:
        """Wait for a part in an order; return ``None`` once the queries are released."""
        with self._changed:
            while not self._ending.begun.is_set():
                work = self._work
                if work is not None and query in work.open:
                    work.open.discard(query)
                    work.doing.add(query)
                    return work
                if not self.is_closed:
                    return None
                self._changed.wait(LOOK_SECONDS)
        raise StopRequested(f"Query {query!r} was not started because the stream is ending.")

    def _do(self, work: _InWork, query: str, absorb: Absorb) -> None:
        try:
            work.committed[query] = absorb(work.order.absorb[query])
        except StopRequested:
            raise
        except Exception as err:  # noqa: BLE001 - whatever Spark says of the batch is reported
            # The task that gave the order decides what follows; the query keeps waiting.
            message = f"Query {query!r} has not absorbed its batch: {error_of(err).message}"
            logger.warning("%s", message)
            work.errors.append(message)
        finally:
            with self._changed:
                work.doing.discard(query)
            self._wake.set()

    def _take(self) -> None:
        try:
            order = self._orders.next()
        except RecordError as err:
            self._orders.answer(committed={}, error=presentable(str(err)))
            return
        if order is None:
            return
        logger.info("Order %d, by %s: %s.", order.number, order.by, order.act)
        with self._changed:
            self._work = _InWork(order)
            if order.act is OrderAct.RELEASE:
                self._is_released = True
            else:
                self._share_out(self._work)
            self._changed.notify_all()

    def _share_out(self, work: _InWork) -> None:
        work.open.update(query for query in work.order.absorb if query in self._waiting)
        work.errors += [
            f"Query {query!r} is not at the barrier. Leave its batch to its claim."
            for query in work.order.absorb
            if query not in self._waiting
        ]

    def _answer(self, work: _InWork) -> None:
        self._orders.answer(committed=work.committed, error=" ".join(work.errors))
        self._work = None
        if not self.is_closed:
            self._over.set()


def barrier_of(
    epoch: Epoch,
    store: Store,
    layout: Layout,
    *,
    ending: ShutdownState,
    fence: Fence,
    orders: OrderBook | None = None,
) -> StandbyBarrier | None:
    """
    Return the barrier of an epoch's driver; ``None`` for a driver that need not wait.

    :param orders: Where its orders come from; default: from the epoch's folder.
    """
    if not epoch.standby:
        return None
    away = LOOK_SECONDS_WAITING if epoch.serves else LOOK_SECONDS_AWAY
    return StandbyBarrier(
        orders or OrderBook(store, layout, epoch.number),
        ending=ending,
        check_fence=fence.check,
        expected=epoch.queries,
        look_seconds=LOOK_SECONDS if isinstance(store, LocalStore) else away,
    )


def install_patience(barrier: StandbyBarrier) -> None:
    """Patch pyspark: while queries are held back, no call returns because one has ended."""
    from pyspark.sql.streaming.query import StreamingQueryManager

    make_patient(StreamingQueryManager, barrier)


def make_patient(manager: type, barrier: StandbyBarrier) -> None:
    """Patch the class that awaits the end of any query."""

    def await_any(original: Any, manager: Any, given: Mapping[str, Any]) -> Any:
        barrier.await_release()
        return original(manager, **given)

    patch_method(manager, "awaitAnyTermination", await_any)
