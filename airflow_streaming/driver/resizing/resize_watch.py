"""
The driver's side of a change of its size: looks for one, carries it out, records the answer.

Only a driver whose number of executors is managed looks. A change belongs to one epoch, and the fence is checked before
each request to the cluster. A driver that dies in between leaves nothing behind: the next one starts with the new size.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from airflow_streaming.driver.errors import ErrorBoundary, logger
from airflow_streaming.driver.jvm import active_context
from airflow_streaming.driver.pausing.query_holds import HeldQuery, QueryHolds
from airflow_streaming.driver.resizing.backend import ExecutorBackend, SparkBackend
from airflow_streaming.driver.resizing.decide import (
    ResizeAct,
    ResizeStep,
    ResizeView,
    decide_resize,
    leaving,
    refusal,
)
from airflow_streaming.exceptions import AlreadyExists
from airflow_streaming.model.names import Layout, number_of
from airflow_streaming.model.records.size_change import SizeChange
from airflow_streaming.model.status import Resizing, SizeChangeEnd, SizeStatus
from airflow_streaming.model.storage import LocalStore, Store

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks for a change."""
LOOK_SECONDS_AWAY: Final = 10.0
"""Seconds between two looks for a change where the home is on an object store."""
WORK_SECONDS: Final = 0.2
"""Seconds between two looks at a change in work, and at a context that the script has not created yet."""


class ResizedQuery(HeldQuery, Protocol):
    """As much of a tracked query as a change of the size needs."""

    def java_query(self) -> Any:
        """Return Spark's query."""


@dataclass(slots=True)
class _Work:
    """A change that the driver carries out."""

    change: SizeChange
    holds: QueryHolds
    seen_at: float
    since: float
    """Begin of the time that is limited: the first sight, the end of a pause, the request to the cluster."""
    is_asked: bool = False
    held_at: float | None = None
    held_s: float = 0.0
    loaded: Mapping[str, int] | None = None
    moved: int = 0
    reason: str = ""


class ResizeWatch:
    """
    Looks for changes of the size of one driver and carries them out.

    :param layout: Of the stream's lane.
    :param executors: Executors that the driver was started with.
    :param queries: Returns the queries of the script, after a start in progress.
    :param is_paused: Tells whether a pause between batches is open.
    :param is_ending: Tells whether the driver is coming to its end.
    :param check_may_write: Ends the driver if another has taken its place.
    :param on_lost: Ends the driver, because a query is held that cannot be released.
    :param connect: Returns the executors of the running Spark context; ``None`` without a context.
    :param clock: Seconds that only rise.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        *,
        epoch: int,
        executors: int,
        queries: Callable[[], Sequence[ResizedQuery]],
        is_paused: Callable[[], bool],
        is_ending: Callable[[], bool],
        check_may_write: Callable[[], object],
        on_lost: Callable[[str], object],
        connect: Callable[[], ExecutorBackend | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store, self._layout, self._epoch, self._queries = store, layout, epoch, queries
        self._is_paused, self._is_ending, self._on_lost = is_paused, is_ending, on_lost
        self._check_may_write, self._connect = check_may_write, connect or ConnectedBackend()
        self._clock, self._now = clock, now
        self._rest = LOOK_SECONDS if isinstance(store, LocalStore) else LOOK_SECONDS_AWAY
        self._status = SizeStatus(executors=executors)
        self._last: int | None = None
        """Number of the newest change that is known."""
        self._work: _Work | None = None
        self._unwritten: SizeChangeEnd | None = None
        self._begun: ExecutorBackend | None = None
        self._removed: set[str] = set()
        self._faults = ErrorBoundary()

    def begin(self) -> None:
        """Start to look."""
        threading.Thread(target=self._run, name="airflow-streaming-size", daemon=True).start()

    @property
    def executors(self) -> int:
        """Return the executors that the driver wants now."""
        work = self._work
        return work.change.executors if work is not None else self._status.executors

    @property
    def removed(self) -> Collection[str]:
        """Return the executors that went for a smaller size: they are not lost."""
        return frozenset(self._removed)

    def status(self) -> SizeStatus:
        """Return the size for the driver's status, without waiting for a look."""
        work = self._work
        if work is None:
            return self._status
        return replace(
            self._status,
            number=work.change.number,
            state=Resizing.WORKING,
            reason=work.reason,
            working_for_s=round(self._clock() - work.since, 1),
        )

    def release(self) -> None:
        """Let every query continue at once, because the driver ends."""
        work = self._work
        if work is not None:
            work.holds.release()

    def look(self) -> None:
        """Look once: find a change, or take it a step further."""
        with self._faults.contained("Beginning with the size of the epoch"):
            self._begin_with()
        with self._faults.contained("Recording the answer to a change of the size"):
            self._write()
        if self._work is None:
            with self._faults.contained("Looking for a change of the size"):
                self._find()
        work = self._work
        if work is not None:
            try:
                self._carry_out(work)
            except Exception as err:  # noqa: BLE001 - any error of py4j: a restart reaches the size
                self._end(work, Resizing.REFUSED, f"Spark could not be asked: {err}"[:300])

    def _run(self) -> None:
        while not self._is_ending():
            self.look()
            is_busy = self._work is not None or self._begun is None
            time.sleep(WORK_SECONDS if is_busy else self._rest)
        self.release()

    def _begin_with(self) -> None:
        backend = self._connect()
        if backend is None or backend is self._begun:
            return
        size = self._status.executors
        if not refusal(backend.conf, size, is_elastic=backend.is_elastic):
            self._removed.update(backend.begin_with(size))
        self._begun = backend

    def _find(self) -> None:
        if self._last is None:
            names = self._store.names(self._layout.folder(SizeChange))
            newest = max((number_of(name) or 0 for name in names), default=0)
            self._last = max(0, newest - 1)
        data = self._store.read(self._layout.place(SizeChange, number=self._last + 1))
        if data is None:
            return
        # Also a record that cannot be read: the next change has the next number.
        self._last += 1
        change = self._layout.parse(SizeChange, data, number=self._last)
        now = self._clock()
        work = _Work(change, QueryHolds(self._queries, self._on_lost), seen_at=now, since=now)
        if decide_resize(self._view(work, None)).act is not ResizeAct.IGNORE:
            logger.info("Change %d of the size: %s", change.number, change.sentence)
            self._work = work

    def _view(self, work: _Work, backend: ExecutorBackend | None) -> ResizeView:
        wanted, now = work.change.executors, self._clock()
        why = (
            None
            if backend is None
            else refusal(backend.conf, wanted, is_elastic=backend.is_elastic)
        )
        is_paused = self._is_paused()
        if is_paused and not work.is_asked:
            work.since = now
        return ResizeView(
            change=work.change,
            epoch=self._epoch,
            size=self._status.executors,
            refusal=why,
            is_paused=is_paused,
            is_asked=work.is_asked,
            is_held=work.held_at is not None,
            cannot_hold=work.holds.refusal,
            has_state=work.loaded is None or bool(work.loaded),
            alive=len(backend.alive()) if backend is not None and work.is_asked else 0,
            working_for=now - work.since,
        )

    def _carry_out(self, work: _Work) -> None:
        if self._is_ending():
            work.holds.release()
            return
        backend = self._connect()
        step = decide_resize(self._view(work, backend))
        work.reason = step.reason
        match step.act:
            case ResizeAct.GROW if backend is not None:
                self._check_may_write()
                backend.ask_for(work.change.executors)
                work.is_asked, work.since = True, self._clock()
            case ResizeAct.WAIT if not work.is_asked:
                self._let_go(work)
            case ResizeAct.HOLD if backend is not None:
                self._hold(work, backend)
            case ResizeAct.SHRINK if backend is not None:
                self._shrink(work, backend)
            case ResizeAct.DONE:
                self._done(work, step, backend)
            case ResizeAct.REFUSE:
                self._end(work, Resizing.REFUSED, step.reason)

    def _let_go(self, work: _Work) -> None:
        # A pause that was opened meanwhile has the queries first.
        work.holds.release()
        work.holds, work.held_at = QueryHolds(self._queries, self._on_lost), None

    def _hold(self, work: _Work, backend: ExecutorBackend) -> None:
        if work.loaded is None:
            work.loaded = {}
            with self._faults.contained("Looking for the executors of the state"):
                work.loaded = backend.loaded_state(self._java_queries())
        if work.is_asked and not work.loaded:
            return  # there is nothing to spread
        if work.holds.hold():
            work.held_at = self._clock()
            self._carry_out(work)

    def _shrink(self, work: _Work, backend: ExecutorBackend) -> None:
        loaded = work.loaded or {}
        try:
            self._check_may_write()
            wanted, alive = work.change.executors, backend.alive()
            ids = leaving(alive, loaded, len(alive) - wanted)
            backend.ask_for(wanted)
            self._removed.update(ids)
            backend.remove(ids)
            work.moved = sum(loaded.get(one, 0) for one in ids)
            work.is_asked, work.since = True, self._clock()
        finally:
            self._release(work)

    def _release(self, work: _Work) -> None:
        work.holds.release()
        if work.held_at is not None:
            work.held_s = self._clock() - work.held_at
            work.held_at = None

    def _done(self, work: _Work, step: ResizeStep, backend: ExecutorBackend | None) -> None:
        is_growth = work.change.executors > self._status.executors
        if backend is not None and is_growth and work.held_at is not None:
            with self._faults.contained("Spreading the state over the new executors"):
                backend.spread_state(self._java_queries())
        self._end(work, Resizing.IN_PLACE, step.reason)

    def _end(self, work: _Work, result: Resizing, reason: str) -> None:
        self._release(work)
        change, now = work.change, self._now()
        is_reached = result is Resizing.IN_PLACE
        end = SizeChangeEnd(
            number=change.number,
            epoch=self._epoch,
            result=result,
            executors=change.executors if is_reached else self._status.executors,
            seconds=round(self._clock() - work.seen_at, 1),
            held_s=round(work.held_s, 2),
            state_partitions=sum((work.loaded or {}).values()),
            moved=work.moved,
            reason=reason,
            at=now,
        )
        logger.info("Change %d of the size: %s", change.number, end.sentence)
        self._status = SizeStatus(
            executors=end.executors,
            number=change.number,
            state=result,
            reason=reason,
            since=now if is_reached else self._status.since,
        )
        self._work, self._unwritten = None, end
        with self._faults.contained("Recording the answer to a change of the size"):
            self._write()

    def _write(self) -> None:
        end = self._unwritten
        if end is None:
            return
        place = self._layout.place(SizeChangeEnd, number=end.number)
        try:
            self._store.create(place, self._layout.bytes_of(end))
        except AlreadyExists:
            logger.info("Change %d of the size has its answer already.", end.number)
        self._unwritten = None

    def _java_queries(self) -> list[Any]:
        return [query.java_query() for query in self._queries() if query.is_running()]


class ConnectedBackend:
    """Finds the executors of the running Spark context, and keeps them while it runs."""

    def __init__(self) -> None:
        self._backend: SparkBackend | None = None

    def __call__(self) -> SparkBackend | None:
        context = active_context()
        if context is None:
            return None
        if self._backend is None or self._backend.context is not context:
            self._backend = SparkBackend(context)
        return self._backend
