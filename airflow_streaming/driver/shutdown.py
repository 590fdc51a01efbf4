"""
How a driver ends: stop requests and fencing, queries stopped at a batch boundary.

A query with a ``foreachBatch`` function is stopped when no batch is in work; the gate turns the
next one away, so it comes to rest. Any other sink takes a cut batch again exactly (same
offsets, same batch id), so after a short wait for a quiet moment the query is stopped as it is.

A query in real-time mode has written the rows of its batch already and writes them again after a cut. It is stopped
right after its next commit, where the grace lasts until then, and at once where it does not.

A batch may be in work, so the JVM dies first, wherever the word can be written without it: no
reader of the word then meets a Spark that writes on. A ``foreachBatch`` function in this process
ends only with the process, which is why the word also says that the driver was cut off.

Numbers of epochs rise by one and their records are never deleted, so one small read is enough: the
record after ours. An unavailable home proves nothing and stops no driver; a new epoch is begun only
after the old driver is proved dead or a user declared it dead.

It must see a stop request, a newer epoch and the death of the JVM even while every other thread
waits for a JVM that hangs. Signals wake it at once. Their handlers do nothing else: py4j inside a
signal handler was seen to end the driver with an error.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from airflow_streaming.driver.errors import ErrorBoundary, logger
from airflow_streaming.driver.exit_status import ShutdownState, Stop
from airflow_streaming.driver.jvm import JvmProcess
from airflow_streaming.driver.monitoring.queries import TrackedQuery
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import Epoch, StopRequest
from airflow_streaming.model.storage import Store

BOUNDARY_WAIT: Final = 5.0
"""Seconds a query without a gate may take to come to a quiet moment."""
_LOOK_EVERY: Final = 0.1
_COMMIT_SECONDS: Final = 5.0
"""Seconds that a batch in real-time mode may take to commit after its interval."""

_MARGIN: Final = 2.0
"""Seconds for the last word."""
_MARGIN_BY_JVM: Final = 1.0
"""The same while the JVM, which may be writing, must live for it."""

FENCED_CODE = 3

LOOK_SECONDS: Final = 1.0
GRACE_VARIABLE: Final = "AIRFLOW_STREAMING_STOP_GRACE"
DEFAULT_GRACE: Final = 60.0
"""Seconds a stop by SIGTERM, or by a request that cannot be read, may take."""
_MAX_GRACE: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """
    The end of a batch in real-time mode, in seconds since the request to stop.

    :param due: When the batch is due to commit, with a margin.
    :param until: When the query must have its request to stop.
    """

    is_crossed: bool
    due: float
    until: float


def may_stop(
    *, gated: bool, processing: bool, waited: float, boundary: Boundary | None = None
) -> bool:
    """
    Tell whether a query may be stopped now.

    :param boundary: The end of its batch in real-time mode; ``None`` for another query.
    """
    if not processing:
        return True
    if boundary is not None:
        return boundary.is_crossed or boundary.due > boundary.until
    return not gated and waited >= BOUNDARY_WAIT


def stop_queries(
    queries: Callable[[], Sequence[TrackedQuery]],
    *,
    until: float,
    clock: Callable[[], float],
    pause: Callable[[float], object],
) -> list[str]:
    """
    Stop all queries and return the names of queries that did not stop in time.

    :param queries: Returns the queries; a script may have started one more in the meantime.
    :param until: Time of ``clock`` at which to give up.
    """
    begun, asked = clock(), set[str]()
    faults = ErrorBoundary()
    boundaries = _Boundaries(until - begun)
    while pending := [q for q in queries() if q.is_running()]:
        if clock() >= until:
            return [q.name for q in pending]
        for query in pending:
            waited = clock() - begun
            boundary = boundaries.of(query, waited, faults)
            if query.run_id not in asked and _may_stop(query, waited, boundary, faults):
                asked.add(query.run_id)
                _stop_aside(query)
        pause(_LOOK_EVERY)
    return []


def _may_stop(
    query: TrackedQuery, waited: float, boundary: Boundary | None, faults: ErrorBoundary
) -> bool:
    with faults.contained(f"Asking query {query.name!r} what it does"):
        # In real-time mode a new batch begins at once, so no look would find the query at rest.
        processing = boundary is not None or bool(query.query.status().get("isTriggerActive"))
        return may_stop(gated=query.gated, processing=processing, waited=waited, boundary=boundary)
    return False


class _Boundaries:
    """
    The ends of the batches that were in work at the request to stop.

    :param grace: Seconds until the driver gives up.
    """

    def __init__(self, grace: float) -> None:
        self._until = grace - BOUNDARY_WAIT
        self._first: dict[str, tuple[float, int | None]] = {}

    def of(self, query: TrackedQuery, waited: float, faults: ErrorBoundary) -> Boundary | None:
        due = query.boundary_in_s
        if due is None:
            return None
        last = None
        with faults.contained(f"Asking query {query.name!r} for its last batch"):
            last = query.query.last_batch()
        first_due, first = self._first.setdefault(query.run_id, (waited + due, last))
        return Boundary(
            is_crossed=last != first, due=first_due + _COMMIT_SECONDS, until=self._until
        )


def _stop_aside(query: TrackedQuery) -> None:
    # stop() waits for the query's thread, however long that takes; the others must not.
    def stop() -> None:
        with ErrorBoundary().contained(f"Stopping query {query.name!r}"):
            query.query.stop()

    threading.Thread(target=stop, name=f"airflow-streaming-stop-{query.name}", daemon=True).start()


class HardExit:
    """
    Ends this process, whatever its threads do.

    :param store_needs_jvm: The home is reached through the JVM, which must die after the word.
    :param leave: Ends this process with an exit code.
    """

    def __init__(
        self,
        jvm: JvmProcess,
        *,
        store_needs_jvm: bool,
        leave: Callable[[int], NoReturn] = os._exit,
    ) -> None:
        self._jvm, self._store_needs_jvm, self._leave = jvm, store_needs_jvm, leave
        self._lock = threading.Lock()

    def at_once(self, last_word: Callable[[], None], code: Callable[[], int]) -> NoReturn:
        """
        Kill the JVM, say the last word within two seconds and end the process.

        Of several threads the first one counts: the others see a JVM that it has killed.

        :param code: Returns the exit code, once the exit record is written.
        """
        with self._lock:
            if not self._store_needs_jvm:
                self._jvm.kill()
            bounded(last_word, seconds=_MARGIN_BY_JVM if self._store_needs_jvm else _MARGIN)
            self._jvm.kill()
            self._leave(code())


def bounded(work: Callable[[], None], *, seconds: float) -> bool:
    """Do some work on a thread of its own and wait no longer than that; tell whether it ended."""
    thread = threading.Thread(target=work, name="airflow-streaming-bounded", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


class Fence:
    """
    Looks for a newer epoch, and ends this driver at once when there is one.

    :param last_word: Writes the exit record.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        epoch: int,
        *,
        leaving: HardExit,
        last_word: Callable[[], None],
    ) -> None:
        self._store, self._next = store, layout.place(Epoch, number=epoch + 1)
        self._epoch, self._leaving, self._last_word = epoch, leaving, last_word
        self._faults = ErrorBoundary()

    def move(self, layout: Layout, epoch: int) -> None:
        """Guard another epoch from now on."""
        self._next, self._epoch = layout.place(Epoch, number=epoch + 1), epoch

    def check(self) -> None:
        """Return if this epoch is the newest as far as can be seen; otherwise do not return."""
        newer = False
        with self._faults.contained("Looking for a newer epoch"):
            newer = self._store.read(self._next) is not None
        if newer:
            self._end()

    def _end(self) -> NoReturn:
        logger.error("Epoch %d is fenced: %s exists. Ending at once.", self._epoch, self._next)
        self._leaving.at_once(self._last_word, lambda: FENCED_CODE)


class StopWatcher:
    """
    Looks for reasons to end.

    :param on_jvm_gone: Called when the JVM has died; does not return.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        epoch: int,
        *,
        ending: ShutdownState,
        fence: Fence,
        jvm: JvmProcess,
        on_jvm_gone: Callable[[], object],
    ) -> None:
        self._store, self._layout, self._epoch = store, layout, epoch
        self._ending, self._fence, self._jvm = ending, fence, jvm
        self._on_jvm_gone = on_jvm_gone
        self._terminated = False
        self._faults = ErrorBoundary()
        self._waking, self._wake = os.pipe()

    def begin(self) -> None:
        """Install the signal handlers and start looking; must be called in the main thread."""
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGTERM, self._note_termination)
        # A driver that was suspended may have lost its epoch meanwhile; it looks before it works.
        signal.signal(signal.SIGCONT, _do_nothing)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        threading.Thread(target=self._run, name="airflow-streaming-watch", daemon=True).start()

    def move(self, layout: Layout, epoch: int) -> None:
        """Look for the stop requests of another epoch from now on."""
        self._layout, self._epoch = layout, epoch

    def look(self) -> None:
        """Look once for every reason to end."""
        if self._jvm.is_gone():
            self._on_jvm_gone()
        self._fence.check()
        if self._ending.begun.is_set():
            return
        stop = self._stop_wanted()
        if stop is not None and self._ending.ask_stop(stop):
            logger.info("Stopping within %.0f s, by %s: %s", stop.grace, stop.by, stop.reason)

    def _run(self) -> None:
        ready = select.poll()
        ready.register(self._waking, select.POLLIN)
        while True:
            with self._faults.contained("Watching for a stop"):
                self.look()
            if ready.poll(LOOK_SECONDS * 1000):
                os.read(self._waking, 1024)

    def _stop_wanted(self) -> Stop | None:
        if self._terminated:
            return Stop(by="SIGTERM", reason="The process received SIGTERM.", grace=signal_grace())
        with self._faults.contained("Looking for a stop request"):
            data = self._store.read(self._layout.place(StopRequest, epoch=self._epoch))
            return None if data is None else read_stop(self._layout, self._epoch, data)
        return None

    def _note_termination(self, *_: object) -> None:
        self._terminated = True


def read_stop(layout: Layout, epoch: int, data: bytes) -> Stop:
    """
    Read a stop request; an unreadable request still stops, with the usual grace.

    :raises RecordError: the request is to another driver.
    """
    try:
        request, beside = StopRequest.stored(data)
    except RecordError as err:
        logger.warning("The stop request cannot be read (%s); stopping all the same.", err)
        return Stop(by="a stop request", reason="It could not be read.", grace=signal_grace())
    layout.check(request, beside, epoch=epoch)
    return Stop(by=request.by, reason=request.reason, grace=request.grace_seconds)


def signal_grace() -> float:
    """Return the grace of a stop by signal: from the environment, else 60 s."""
    with contextlib.suppress(ValueError):
        return min(max(float(os.environ.get(GRACE_VARIABLE, DEFAULT_GRACE)), 0.0), _MAX_GRACE)
    return DEFAULT_GRACE


def _do_nothing(*_: object) -> None:
    pass
