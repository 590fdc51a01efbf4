from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.plan.keeping import PlanKeeper
from airflow_streaming.driver.plan.reading import Taken
from airflow_streaming.driver.plan.writer_settings import WriterSettings
from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.model.plan.tree import ColumnRef
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan, StepPlan
from airflow_streaming.model.storage import LocalStore
from tests.patience import PATIENCE
from tests.unit.driver.fakes import LAYOUT
from tests.unit.model.examples import QUERY_PLAN

Read = Callable[[Taken], QueryPlan]


def taken(query: str) -> Taken:
    return Taken(query, "", WriterSettings(), None, None, "4.3.0", {}, "parquet")


def read(one: Taken) -> QueryPlan:
    return replace(QUERY_PLAN, query=one.query)


class Away(LocalStore):
    """A home that is away for the first writes."""

    def __init__(self, folder: Path, times: int) -> None:
        super().__init__(str(folder))
        self.times = times

    def replace(self, path: str, data: bytes) -> None:
        if self.times:
            self.times -= 1
            raise HomeUnavailable("The home is away.")
        super().replace(path, data)


def kept(store: LocalStore, query: str) -> QueryPlan | None:
    data = store.read(LAYOUT.place(QueryPlan, epoch=1, query=query))
    return None if data is None else QueryPlan.from_bytes(data)


def test_the_plans_of_all_queries_are_recorded(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    keeper = PlanKeeper(store, LAYOUT, 1, read=read)
    for query in ("a", "b"):
        keeper.keep(taken(query))
    keeper.finish()
    assert [kept(store, query) for query in ("a", "b")] == [read(taken("a")), read(taken("b"))]
    data = store.read(LAYOUT.place(QueryPlan, epoch=1, query="a")) or b""
    with pytest.raises(RecordError, match="its epoch is 1, not 2"):
        LAYOUT.parse(QueryPlan, data, epoch=2, query="a")
    keeper.keep(taken("c"))
    keeper.finish()
    assert kept(store, "c") is not None


def test_a_plan_that_cannot_be_read_disturbs_neither_the_script_nor_the_next(
    tmp_path: Path,
) -> None:
    def fail_once(one: Taken) -> QueryPlan:
        if one.query == "bad":
            raise RuntimeError("a Spark from elsewhere")
        return read(one)

    store = LocalStore(str(tmp_path))
    keeper = PlanKeeper(store, LAYOUT, 1, read=fail_once)
    for query in ("bad", "good"):
        keeper.keep(taken(query))
    keeper.finish()
    assert kept(store, "bad") is None
    assert kept(store, "good") is not None


def test_a_place_that_a_function_writes_is_recorded_with_its_plan(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    keeper = PlanKeeper(store, LAYOUT, 1, read=read)
    before, after = (SinkPlan(sink="jdbc", options={"dbtable": table}) for table in "ab")

    keeper.wrote("q", before)
    keeper.keep(taken("q"))
    keeper.finish()
    keeper.wrote("q", after)
    keeper.wrote("q", after)
    keeper.finish()

    assert (found := kept(store, "q")) is not None
    assert found.writes == (before, after)


def test_a_home_that_is_away_gets_the_plan_later(tmp_path: Path) -> None:
    store = Away(tmp_path, times=3)
    keeper = PlanKeeper(store, LAYOUT, 1, read=read, retry=0.001)
    keeper.keep(taken("a"))
    while keeper._thread is not None:
        keeper._thread.join(PATIENCE)
    assert kept(store, "a") is not None


def test_a_home_that_stays_away_does_not_keep_the_driver_from_ending(tmp_path: Path) -> None:
    store = Away(tmp_path, times=1_000_000)
    keeper = PlanKeeper(store, LAYOUT, 1, read=read, retry=60)
    keeper.keep(taken("a"))
    ending = threading.Thread(target=keeper.finish)
    ending.start()
    ending.join(PATIENCE)
    assert not ending.is_alive()


def test_a_query_that_does_not_start_leaves_no_plan(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    keeper = PlanKeeper(store, LAYOUT, 1, read=read)
    given: dict[str, Any] = {}
    with (
        pytest.raises(ValueError, match="refused"),
        keeper.around(object(), given, query="a", checkpoint=""),
    ):
        raise ValueError("refused")
    # A writer that nothing can be learned from does not keep its query from starting.
    with keeper.around(object(), given, query="a", checkpoint=""):
        pass
    keeper.finish()
    assert kept(store, "a") is None


def test_a_plan_of_too_many_steps_is_recorded_without_them(tmp_path: Path) -> None:
    steps = tuple(StepPlan(step="project", tree=ColumnRef("x" * 2000), below=n) for n in range(600))
    store = LocalStore(str(tmp_path))
    keeper = PlanKeeper(store, LAYOUT, 1, read=lambda one: replace(read(one), steps=steps))
    keeper.keep(taken("a"))
    keeper.finish()
    plan = kept(store, "a")
    assert plan is not None
    assert plan.steps == ()
    assert plan.notes[-1] == "Its 600 steps are too much for a record."
