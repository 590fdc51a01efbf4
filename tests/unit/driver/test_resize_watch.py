"""A driver changes its size between two batches, records the answer, and leaves no query held."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.resizing.decide import LIMIT_SECONDS
from airflow_streaming.driver.resizing.resize_watch import ResizeWatch
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.size_change import SizeChange
from airflow_streaming.model.status import Resizing, SizeChangeEnd, SizeStatus
from tests.patience import until
from tests.unit.driver.fakes import LAYOUT, NOON, AbsentStore
from tests.unit.driver.test_batch_lock import moves
from tests.unit.driver.test_decide_resize import DOWN, UP
from tests.unit.driver.test_pause_watch import Query

STANDALONE = {
    "spark.master": "spark://master:7077",
    "spark.cores.max": "4",
    "spark.executor.cores": "1",
}


class ResizedQuery(Query):
    def java_query(self) -> str:
        return f"java {self.name}"


class Cluster:
    """A cluster that gives what it is asked for, unless a test holds it back."""

    def __init__(self) -> None:
        self.conf: Mapping[str, str] = STANDALONE
        self.is_elastic = True
        self.ids = ["0", "1"]
        self.total = 2
        self.room = 8
        self.removes = True
        self.loaded: dict[str, int] = {}
        self.spread: list[Any] = []
        self.calls: list[str] = []
        self.failure: Exception | None = None
        self.on_remove: Any = lambda: None
        self.on_spread: Any = lambda: None

    def alive(self) -> list[str]:
        return list(self.ids)

    def begin_with(self, executors: int) -> list[str]:
        self.calls.append(f"begin with {executors}")
        return ["2", "3"]

    def ask_for(self, executors: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.calls.append(f"ask for {executors}")
        self.total = executors
        self.fill()

    def fill(self) -> None:
        while len(self.ids) < min(self.total, self.room):
            self.ids.append(str(4 + len(self.ids)))

    def remove(self, ids: Sequence[str]) -> None:
        self.calls.append(f"remove {','.join(ids)}")
        self.on_remove()
        if self.removes:
            self.ids = [one for one in self.ids if one not in ids]

    def loaded_state(self, queries: Sequence[Any]) -> Mapping[str, int]:
        assert queries == ["java a", "java b"]
        return self.loaded

    def spread_state(self, queries: Sequence[Any]) -> None:
        self.on_spread()
        self.spread.extend(queries)


class Driver:
    """A driver of epoch 7 with two executors and two queries."""

    def __init__(self, folder: Path) -> None:
        self.store = AbsentStore(str(folder))
        self.store.present = True
        self.home = StreamHome(self.store, "orders")
        self.queries = [ResizedQuery("a"), ResizedQuery("b")]
        self.cluster: Cluster | None = Cluster()
        self.ending = threading.Event()
        self.seconds = 0.0
        self.is_paused = False
        self.checks = 0
        self.watch = self.started()

    def started(self, epoch: int = 7, executors: int = 2) -> ResizeWatch:
        return ResizeWatch(
            self.store,
            LAYOUT,
            epoch=epoch,
            executors=executors,
            queries=lambda: self.queries,
            is_paused=lambda: self.is_paused,
            is_ending=self.ending.is_set,
            check_may_write=self._check,
            on_lost=pytest.fail,
            connect=lambda: self.cluster,
            clock=lambda: self.seconds,
            now=lambda: NOON,
        )

    def _check(self) -> None:
        self.checks += 1

    def change(self, change: SizeChange) -> None:
        assert self.home.add_size(change)

    def answered(self, number: int = 1) -> SizeStatus:
        def is_answered() -> bool:
            self.watch.look()
            status = self.watch.status()
            return status.number == number and status.state is not Resizing.WORKING

        until(is_answered, "the answer", every=0.01)
        return self.watch.status()

    def end(self, number: int = 1) -> SizeChangeEnd:
        end = self.home.size_end(number)
        assert end is not None
        return end

    def stop(self) -> None:
        self.ending.set()
        self.watch.release()
        for query in self.queries:
            query.lock.stop()


@pytest.fixture
def driver(tmp_path: Path) -> Any:
    made = Driver(tmp_path)
    yield made
    made.stop()


def cluster_of(driver: Driver) -> Cluster:
    assert driver.cluster is not None
    return driver.cluster


def test_the_state_is_spread_over_new_executors_between_two_batches(driver: Driver) -> None:
    cluster, seen = cluster_of(driver), []
    cluster.loaded = {"0": 4, "1": 4}
    cluster.on_spread = lambda: seen.extend(
        query.lock.planned == query.lock.committed for query in driver.queries
    )
    driver.change(UP)

    driver.answered()

    assert seen == [True, True]
    assert cluster.spread == ["java a", "java b"]
    assert driver.end().state_partitions == 8
    for query in driver.queries:
        moves(query.lock)


def test_state_of_a_query_that_cannot_be_held_stays(driver: Driver) -> None:
    cluster_of(driver).loaded = {"0": 4}
    driver.queries[1].lock.refusal = lambda: "runs continuously"  # type: ignore[method-assign]
    driver.change(UP)

    assert driver.answered().executors == 4
    assert cluster_of(driver).spread == []
    moves(driver.queries[0].lock)


def test_more_executors_come_without_a_hold(driver: Driver) -> None:
    driver.change(UP)

    status = driver.answered()

    assert (status.executors, status.state, status.since) == (4, Resizing.IN_PLACE, NOON)
    assert driver.end().executors == 4
    assert driver.end().held_s == 0
    assert not any(query.notes for query in driver.queries), "no query was held"
    assert driver.checks == 1, "the fence was checked"


def test_executors_go_while_every_query_is_between_two_batches(driver: Driver) -> None:
    cluster, seen = cluster_of(driver), []
    cluster.loaded = {"0": 2, "1": 6}
    cluster.on_remove = lambda: seen.extend(
        query.lock.planned == query.lock.committed for query in driver.queries
    )
    driver.change(DOWN)

    status = driver.answered()

    assert seen == [True, True]
    assert (status.executors, cluster.ids) == (1, ["1"]), "the one with less state went"
    assert cluster.calls[-2:] == ["ask for 1", "remove 0"], "it is not replaced"
    end = driver.end()
    assert (end.state_partitions, end.moved, end.result) == (8, 2, Resizing.IN_PLACE)
    for query in driver.queries:
        moves(query.lock)


def test_a_full_cluster_is_reported_and_is_no_reason_for_a_restart(driver: Driver) -> None:
    cluster_of(driver).room = 3
    driver.change(UP)
    driver.watch.look()
    driver.watch.look()
    assert driver.watch.status().state is Resizing.WORKING
    driver.seconds = LIMIT_SECONDS

    status = driver.answered()

    assert (status.executors, status.state) == (4, Resizing.IN_PLACE)
    assert "3 of 4" in driver.end().reason


@pytest.mark.parametrize(
    "conf",
    [
        {**STANDALONE, "spark.cores.max": "3"},
        {"spark.master": "local[2]"},
        {**STANDALONE, "spark.dynamicAllocation.enabled": "true"},
    ],
)
def test_what_spark_cannot_do_is_refused_at_once(driver: Driver, conf: dict[str, str]) -> None:
    cluster_of(driver).conf = conf
    driver.change(UP)

    status = driver.answered()

    assert (status.executors, status.state, bool(status.reason)) == (2, Resizing.REFUSED, True)
    assert driver.end().result is Resizing.REFUSED
    assert "ask for 4" not in cluster_of(driver).calls


def test_a_query_that_cannot_be_held_leaves_the_change_to_a_restart(driver: Driver) -> None:
    driver.queries[1].lock.refusal = lambda: "runs continuously"  # type: ignore[method-assign]
    driver.change(DOWN)

    status = driver.answered()

    assert status.state is Resizing.REFUSED
    assert "'b' runs continuously" in status.reason
    assert cluster_of(driver).ids == ["0", "1"]
    moves(driver.queries[0].lock)


def test_executors_that_do_not_go_leave_the_change_to_a_restart(driver: Driver) -> None:
    cluster_of(driver).removes = False
    driver.change(DOWN)

    def is_asked() -> bool:
        driver.watch.look()
        return "remove 1" in cluster_of(driver).calls

    until(is_asked, "the request", every=0.01)
    driver.watch.look()
    assert driver.watch.status().state is Resizing.WORKING
    moves(driver.queries[0].lock)
    driver.seconds = LIMIT_SECONDS

    assert driver.answered().state is Resizing.REFUSED


def test_an_error_of_spark_leaves_the_change_to_a_restart(driver: Driver) -> None:
    cluster_of(driver).failure = RuntimeError("py4j")
    driver.change(DOWN)

    status = driver.answered()

    assert status.state is Resizing.REFUSED
    assert "py4j" in status.reason
    for query in driver.queries:
        moves(query.lock)


@pytest.mark.parametrize("epoch", [6, 8])
def test_a_driver_of_another_epoch_does_not_act(driver: Driver, epoch: int) -> None:
    driver.watch = driver.started(epoch=epoch)
    driver.change(UP)
    for _ in range(3):
        driver.watch.look()

    assert driver.watch.status().number == 0
    assert "ask for 4" not in cluster_of(driver).calls
    assert driver.home.size_end(1) is None


def test_a_restarted_driver_has_the_size_and_answers_only_newer_changes(driver: Driver) -> None:
    driver.change(UP)
    driver.watch = driver.started(epoch=8, executors=4)
    driver.watch.look()
    driver.change(replace(DOWN, number=2, epoch=8, executors=4))

    status = driver.answered(2)

    assert (status.executors, driver.end(2).seconds) == (4, 0.0)
    assert driver.home.size_end(1) is None


def test_two_changes_one_after_the_other(driver: Driver) -> None:
    driver.change(UP)
    driver.answered(1)
    driver.change(replace(DOWN, number=2))
    driver.answered(2)

    assert len(cluster_of(driver).ids) == 1
    assert [driver.end(number).executors for number in (1, 2)] == [4, 1]


def test_a_pause_is_awaited_however_long_it_is(driver: Driver) -> None:
    driver.is_paused = True
    driver.change(UP)
    for seconds in (0, 60, 3600):
        driver.seconds = seconds
        driver.watch.look()
    waiting = driver.watch.status()
    assert (waiting.state, waiting.working_for_s) == (Resizing.WORKING, 0.0)

    driver.is_paused = False

    assert driver.answered().executors == 4


def test_a_pause_that_opens_during_the_hold_gets_the_queries(driver: Driver) -> None:
    for query in driver.queries:
        query.lock.lasts = 0.05
    driver.change(DOWN)
    driver.watch.look()
    driver.is_paused = True
    driver.watch.look()

    for query in driver.queries:
        moves(query.lock)
    assert driver.watch.status().state is Resizing.WORKING
    driver.is_paused = False
    assert driver.answered().executors == 1


def test_a_driver_that_ends_leaves_no_query_held_and_changes_nothing(driver: Driver) -> None:
    driver.change(DOWN)
    driver.watch.look()
    driver.ending.set()
    driver.watch.look()

    for query in driver.queries:
        moves(query.lock)
    assert cluster_of(driver).ids == ["0", "1"]


def test_a_change_waits_for_the_context_of_the_script(driver: Driver) -> None:
    cluster, driver.cluster = driver.cluster, None
    driver.change(UP)
    driver.watch.look()
    assert driver.watch.status().state is Resizing.WORKING

    driver.cluster = cluster

    assert driver.answered().executors == 4


def test_the_start_gives_back_what_the_master_gave_beyond_the_size(driver: Driver) -> None:
    driver.watch.look()
    driver.watch.look()

    assert cluster_of(driver).calls == ["begin with 2"]
    assert driver.watch.removed == {"2", "3"}, "they do not count as lost"


def test_wanted_executors_are_of_the_new_size_at_once(driver: Driver) -> None:
    cluster_of(driver).room = 2
    driver.change(UP)
    driver.watch.look()

    assert driver.watch.executors == 4


def test_an_answer_that_the_home_did_not_take_is_written_later(driver: Driver) -> None:
    driver.change(UP)
    driver.watch.look()
    driver.store.present = False
    assert driver.answered().state is Resizing.IN_PLACE
    driver.store.present = True
    driver.watch.look()

    assert driver.end().executors == 4


def test_a_damaged_change_is_skipped(driver: Driver) -> None:
    driver.store.create(LAYOUT.place(SizeChange, number=1), b"{}")
    driver.watch.look()
    driver.change(replace(UP, number=2))

    assert driver.answered(2).executors == 4


def test_a_forged_size_asks_no_cluster_for_a_billion_executors(driver: Driver) -> None:
    forged = {**json.loads(LAYOUT.bytes_of(replace(UP, number=1))), "executors": 10**9}
    driver.store.create(LAYOUT.place(SizeChange, number=1), json.dumps(forged).encode())
    driver.watch.look()
    driver.change(replace(UP, number=2))

    assert driver.answered(2).executors == 4
    assert driver.cluster is not None
    assert [one for one in driver.cluster.calls if one.startswith("ask")] == ["ask for 4"]
