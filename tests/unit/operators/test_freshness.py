"""An objective of a query without a name would measure nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.policies import Freshness
from airflow_streaming.operators.freshness import FreshnessOperator
from tests.unit.world import World

BLANK = Freshness(complete_within=timedelta(minutes=15), query=" ")


def test_an_operator_refuses_a_blank_query(world: World) -> None:
    with pytest.raises(SpecError, match=r"Freshness\.query is empty"):
        FreshnessOperator(task_id="look", home=world.uri, stream="orders", freshness=BLANK)


def test_a_stream_refuses_a_blank_query(world: World) -> None:
    with pytest.raises(SpecError, match=r"Freshness\.query is empty"):
        world.spec(freshness=BLANK)


def test_the_furthest_query_and_a_named_one_are_accepted(world: World) -> None:
    for query in (None, "revenue"):
        given = Freshness(complete_within=timedelta(minutes=15), query=query)
        assert world.spec(freshness=given).freshness == given
        FreshnessOperator(task_id="look", home=world.uri, stream="orders", freshness=given)
