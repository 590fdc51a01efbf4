"""
Hold a running query between two batches, by the lock that Spark takes to plan a batch and to commit it.

The lock is fair. A holder that comes in the middle of a batch keeps the lock until the query queues up for its commit,
lets it pass and queues up behind it. So the holder always has the lock between this commit and the next plan, however
short the moment is. Nothing of the query is stopped: its state stays loaded, and the script sees the same query.

A lock of Java belongs to a thread. Each Python thread has a Java thread of its own only in the pinned mode of py4j,
Spark's default; without it no query is held.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from airflow_streaming.driver.errors import logger

_MICRO_BATCH: Final = "MicroBatchExecution"
_PINNED: Final = "ClientServer"
"""py4j's gateway in pinned mode."""
_FIRST_SECONDS: Final = 1
"""Seconds that a try to get the lock lasts; the query may be asking its source for offsets meanwhile."""
_NEXT_SECONDS: Final = 30
"""Seconds that the holder queues up behind a commit. A commit on an object store takes less."""
_LOOK_SECONDS: Final = 0.05
_REAL_TIME: Final = "RealTimeTrigger"


class BatchLock(Protocol):
    """The lock of one query; only the thread that took it gives it back."""

    def refusal(self) -> str:
        """Return why the query cannot be held, as the end of a sentence; empty when it can."""

    def take(self, seconds: int) -> bool:
        """Queue up for the lock at most this long; tell whether it was taken."""

    def give_back(self) -> None:
        """Give the lock back, if this thread has it."""

    def is_at_boundary(self) -> bool:
        """Tell whether every planned batch is committed; the lock must be held."""

    def is_wanted(self) -> bool:
        """Tell whether a thread queues up for the lock."""


class SparkBatchLock:
    """
    The lock of a query in Spark.

    :param jsq: The Java ``StreamingQuery``.
    :param gateway: py4j's gateway.
    """

    def __init__(self, jsq: Any, gateway: Any) -> None:
        self._execution = jsq
        with contextlib.suppress(Exception):
            self._execution = jsq.streamingQuery()
        self._gateway = gateway
        self._lock = self._execution.awaitProgressLock()

    def refusal(self) -> str:
        kind = str(self._execution.getClass().getSimpleName())
        if kind != _MICRO_BATCH:
            return f"runs as {kind}, whose batches have no moment without a batch in work"
        trigger = str(self._execution.trigger().getClass().getSimpleName())
        if trigger == _REAL_TIME:
            return "runs in real-time mode, in which the next batch begins before the last one is committed"
        if type(self._gateway).__name__ != _PINNED:
            return "runs without the pinned threads of py4j (PYSPARK_PIN_THREAD=false)"
        return ""

    def take(self, seconds: int) -> bool:
        unit = self._gateway.jvm.java.util.concurrent.TimeUnit.SECONDS
        return bool(self._lock.tryLock(seconds, unit))

    def give_back(self) -> None:
        if self._lock.isHeldByCurrentThread():
            self._lock.unlock()

    def is_at_boundary(self) -> bool:
        planned = self._execution.offsetLog().getLatestBatchId()
        committed = self._execution.commitLog().getLatestBatchId()
        return bool(planned.equals(committed))

    def is_wanted(self) -> bool:
        return bool(self._lock.hasQueuedThreads())


class QueryHold:
    """
    Holds one query from the end of its batch until it is released.

    :param name: The query's name.
    :param lock: Its lock.
    :param is_active: Tells whether the query runs.
    :param on_lost: Called with a sentence when the lock could not be given back.
    :param note: Called with ``None`` when the query is held, and with the seconds of the pause when it continues.
    """

    def __init__(
        self,
        name: str,
        lock: BatchLock,
        *,
        is_active: Callable[[], bool],
        on_lost: Callable[[str], object],
        note: Callable[[float | None], object] = lambda _: None,
    ) -> None:
        self.name, self._note = name, note
        self._lock, self._is_active, self._on_lost = lock, is_active, on_lost
        self._held, self._released = threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"airflow-streaming-hold-{name}", daemon=True
        )

    @property
    def is_held(self) -> bool:
        """Tell whether the query is between two batches and stays there."""
        return self._held.is_set()

    @property
    def is_over(self) -> bool:
        """Tell whether the holder has ended."""
        return not self._thread.is_alive()

    def begin(self) -> None:
        """Start to wait for the end of the batch in work."""
        self._thread.start()

    def release(self) -> None:
        """Let the query continue, whether or not it is held yet."""
        self._released.set()

    def wait(self, seconds: float) -> bool:
        """Wait for the holder's end; tell whether it came."""
        self._thread.join(seconds)
        return self.is_over

    def _run(self) -> None:
        try:
            if self._reach_boundary():
                begun = time.monotonic()
                self._note(None)
                self._held.set()
                logger.info("Query %r is held between two batches.", self.name)
                self._released.wait()
                self._note(time.monotonic() - begun)
        except Exception as err:  # noqa: BLE001 - any error of py4j: the query must continue
            logger.warning("Query %r could not be held: %s", self.name, err)
        finally:
            self._held.clear()
            self._give_back()

    def _reach_boundary(self) -> bool:
        seconds = _FIRST_SECONDS
        while not self._released.is_set():
            if not self._lock.take(seconds):
                continue
            if self._lock.is_at_boundary():
                return True
            # A batch is in work. Its commit queues up for the lock, and we queue up behind it.
            while not self._lock.is_wanted():
                if self._released.wait(_LOOK_SECONDS) or not self._is_active():
                    return False
            self._lock.give_back()
            seconds = _NEXT_SECONDS
        return False

    def _give_back(self) -> None:
        try:
            self._lock.give_back()
        except Exception as err:  # noqa: BLE001 - a query that waits for ever must not live on
            time.sleep(_LOOK_SECONDS)
            with contextlib.suppress(Exception):
                self._lock.give_back()
                return
            self._on_lost(f"Query {self.name!r} is held and could not be released: {err}")
