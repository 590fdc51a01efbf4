from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.core.names import Layout
from airflow_streaming.exceptions import RecordError
from airflow_streaming.files.local import LocalStore
from airflow_streaming.home.home import StreamHome
from tests.unit.core.examples import QUERY_PLAN
from tests.unit.home.make import make_epoch

LAYOUT = Layout("orders")


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    home = StreamHome(LocalStore(str(tmp_path)), "orders")
    for number in (1, 2, 3):
        home.create_epoch(make_epoch(number))
    return home


def put(home: StreamHome, epoch: int, *queries: str) -> None:
    for query in queries:
        plan = replace(QUERY_PLAN, query=query)
        home.store.replace(LAYOUT.plan(epoch, query), plan.to_bytes())


def test_the_plans_of_an_epoch_come_by_name(home: StreamHome) -> None:
    put(home, 2, "b", "a")
    assert [plan.query for plan in home.plans(2)] == ["a", "b"]
    assert home.plans(1) == []
    assert home.plan(2, "a") == replace(QUERY_PLAN, query="a")
    assert home.plan(2, "c") is None


def test_the_newest_plans_are_those_of_the_newest_epoch_that_has_any(home: StreamHome) -> None:
    assert home.newest_plans() == []
    put(home, 1, "old")
    put(home, 2, "a", "b")
    assert [plan.query for plan in home.newest_plans()] == ["a", "b"]


def test_a_plan_under_another_querys_name_is_refused(home: StreamHome) -> None:
    home.store.replace(LAYOUT.plan(1, "a"), replace(QUERY_PLAN, query="b").to_bytes())
    with pytest.raises(RecordError, match="its query is 'b', not 'a'"):
        home.plans(1)
