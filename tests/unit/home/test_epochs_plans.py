from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.storage import LocalStore
from tests.unit.home.make import SCRIPT, make_deployment, make_epoch
from tests.unit.model.examples import QUERY_PLAN

LAYOUT = Layout("orders")


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    home = StreamHome(LocalStore(str(tmp_path)), "orders")
    # Two drivers of the first deployment, two of the second.
    for number in (1, 2, 3, 4):
        home.create_epoch(make_epoch(number, deployment=1 if number < 3 else 2))
    for number in (1, 2):
        home.create_deployment(make_deployment(number), SCRIPT)
    return home


def put(home: StreamHome, epoch: int, *queries: str, note: str = "") -> None:
    for query in queries:
        plan = replace(QUERY_PLAN, query=query, notes=(note,) if note else QUERY_PLAN.notes)
        home.store.replace(LAYOUT.place(QueryPlan, epoch=epoch, query=query), LAYOUT.bytes_of(plan))


def test_the_plans_of_an_epoch_come_by_name(home: StreamHome) -> None:
    put(home, 2, "b", "a")
    assert [plan.query for plan in home.plans(2)] == ["a", "b"]
    assert home.plans(1) == []
    assert home.plan(2, "a") == replace(QUERY_PLAN, query="a")
    assert home.plan(2, "c") is None


def test_each_querys_newest_plan_under_the_newest_deployment_counts(home: StreamHome) -> None:
    put(home, 2, "before")
    assert home.newest_plans() == []
    put(home, 3, "a", "b", note="old")
    put(home, 4, "b", note="new")
    found = home.newest_plans()
    assert [(plan.query, plan.notes) for plan in found] == [("a", ("old",)), ("b", ("new",))]


def test_another_deployment_can_be_asked_for(home: StreamHome) -> None:
    put(home, 1, "a")
    put(home, 4, "b")
    assert [plan.query for plan in home.newest_plans(1)] == ["a"]
    assert [plan.query for plan in home.newest_plans(2)] == ["b"]
    assert home.newest_plans(3) == []


def test_a_plan_under_another_querys_name_is_refused(home: StreamHome) -> None:
    home.store.replace(
        LAYOUT.place(QueryPlan, epoch=1, query="a"), LAYOUT.bytes_of(replace(QUERY_PLAN, query="b"))
    )
    with pytest.raises(RecordError, match="its query is 'b', not 'a'"):
        home.plans(1)
