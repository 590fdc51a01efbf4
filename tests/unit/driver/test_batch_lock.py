"""A query is held exactly between two batches, by a fair lock that a simulated query shares with the holder."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

import pytest

from airflow_streaming.driver.pausing.batch_lock import QueryHold, SparkBatchLock
from tests.patience import PATIENCE, until


class FairLock:
    """A lock that serves its waiters in order, like Java's fair lock."""

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._queue: deque[int] = deque()
        self.owner: int | None = None

    def take(self, seconds: float) -> bool:
        me = threading.get_ident()
        until = time.monotonic() + seconds
        with self._state:
            self._queue.append(me)
            while self.owner is not None or self._queue[0] != me:
                if not self._state.wait(until - time.monotonic()):
                    self._queue.remove(me)
                    self._state.notify_all()
                    return False
            self._queue.popleft()
            self.owner = me
            return True

    def give_back(self) -> None:
        with self._state:
            if self.owner == threading.get_ident():
                self.owner = None
                self._state.notify_all()

    def is_wanted(self) -> bool:
        with self._state:
            return bool(self._queue)


class RunningQuery(FairLock):
    """A query that plans, runs and commits one batch after the other, without a rest."""

    def __init__(self) -> None:
        super().__init__()
        self.planned = self.committed = self.begun = 0
        self.is_active = True
        self.lasts = 0.0
        self.fails_at: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.is_active = False
        self._thread.join(PATIENCE)

    def refusal(self) -> str:
        return ""

    def is_at_boundary(self) -> bool:
        return self.planned == self.committed

    def _run(self) -> None:
        while self.is_active:
            self.take(PATIENCE)
            self.planned += 1
            self.give_back()
            self.begun = self.planned
            time.sleep(self.lasts)
            if self.fails_at == self.planned:
                self.is_active = False
                return
            self.take(PATIENCE)
            self.committed = self.planned
            self.give_back()


def hold_of(query: RunningQuery, lost: list[str] | None = None) -> QueryHold:
    found: list[str] = [] if lost is None else lost
    return QueryHold("q", query, is_active=lambda: query.is_active, on_lost=found.append)


def soon(hold: QueryHold) -> None:
    until(lambda: hold.is_held, "the boundary", every=0.005)


def moves(query: RunningQuery) -> None:
    """Wait until a query commits a batch."""
    before = query.committed
    until(lambda: query.committed > before, "the next commit", every=0.005)


def test_a_query_without_a_rest_is_held_after_a_commit_and_continues() -> None:
    query = RunningQuery()
    query.lasts = 0.001
    query.begin()
    for _ in range(12):
        hold = hold_of(query)
        hold.begin()
        soon(hold)
        seen = (query.planned, query.committed)
        time.sleep(0.002)

        assert seen[0] == seen[1]
        assert (query.planned, query.committed) == seen
        hold.release()
        moves(query)
        assert hold.wait(PATIENCE)
    query.stop()


def test_the_batch_in_work_is_committed_first() -> None:
    query = RunningQuery()
    query.lasts = 0.1
    query.begin()
    until(lambda: query.begun == 1, "the first batch", every=0.01)
    hold = hold_of(query)
    hold.begin()
    soon(hold)

    assert (query.planned, query.committed) == (1, 1)
    hold.release()
    query.stop()


def test_a_holder_is_released_in_the_middle_of_a_batch() -> None:
    query = RunningQuery()
    query.lasts = 0.3
    query.begin()
    until(lambda: query.begun == 1, "the first batch", every=0.01)
    hold = hold_of(query)
    hold.begin()
    until(lambda: query.owner is not None, "the lock", every=0.01)
    hold.release()

    assert hold.wait(PATIENCE)
    assert not hold.is_held
    until(lambda: query.committed == 1, "the commit", every=0.01)
    query.stop()


def test_a_holder_ends_with_a_query_that_fails_in_its_batch() -> None:
    query = RunningQuery()
    query.lasts, query.fails_at = 0.1, 1
    query.begin()
    until(lambda: query.begun == 1, "the first batch", every=0.01)
    hold = hold_of(query)
    hold.begin()

    assert hold.wait(PATIENCE)
    assert query.owner is None


class BrokenLock(RunningQuery):
    """A lock whose boundary cannot be read; it may also not be given back."""

    keeps = False

    def is_at_boundary(self) -> bool:
        raise OSError("the checkpoint is away")

    def give_back(self) -> None:
        if self.keeps:
            raise OSError("the JVM is away")
        super().give_back()


def test_a_query_whose_boundary_cannot_be_read_is_released() -> None:
    query, lost = BrokenLock(), list[str]()
    hold = hold_of(query, lost)
    hold.begin()

    assert hold.wait(PATIENCE)
    assert query.owner is None
    assert not lost


def test_a_lock_that_cannot_be_given_back_ends_the_driver() -> None:
    query, lost = BrokenLock(), list[str]()
    query.keeps = True
    hold = hold_of(query, lost)
    hold.begin()

    assert hold.wait(PATIENCE)
    assert lost == ["Query 'q' is held and could not be released: the JVM is away"]


class Java:
    """A Java object whose methods return fixed values."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        value = self._values[name]
        return value if callable(value) else lambda: value


class ClientServer:
    """py4j's gateway with pinned threads, by its name."""


class JavaGateway:
    """py4j's gateway without them."""


def execution(kind: str = "MicroBatchExecution", trigger: str = "ProcessingTimeTrigger") -> Java:
    def named(name: str) -> Java:
        return Java(getClass=Java(getSimpleName=name))

    stream = Java(
        getClass=Java(getSimpleName=kind), trigger=named(trigger), awaitProgressLock=Java()
    )
    return Java(streamingQuery=stream)


@pytest.mark.parametrize(
    ("stream", "gateway", "part"),
    [
        pytest.param(execution(), ClientServer(), "", id="micro_batches"),
        pytest.param(
            execution("ContinuousExecution"), ClientServer(), "Continuous", id="continuous"
        ),
        pytest.param(
            execution("AsyncProgressTrackingMicroBatchExecution"),
            ClientServer(),
            "AsyncProgressTracking",
            id="asynchronous",
        ),
        pytest.param(
            execution(trigger="RealTimeTrigger"), ClientServer(), "real-time", id="real_time"
        ),
        pytest.param(execution(), JavaGateway(), "PIN_THREAD", id="threads_not_pinned"),
    ],
)
def test_only_queries_with_a_moment_between_batches_are_held(
    stream: Java, gateway: object, part: str
) -> None:
    refusal = SparkBatchLock(stream, gateway).refusal()

    assert bool(refusal) is bool(part)
    assert part in refusal
