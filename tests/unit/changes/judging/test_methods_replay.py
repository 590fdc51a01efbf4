"""How far back an empty checkpoint has to read follows from the plan, or there is no such time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.changes.judging.methods import replay_start
from airflow_streaming.model.plan.tree import ColumnRef, Expr, literal
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan
from tests.system.edits.plans import Plans
from tests.unit.gates.change import builders as b

WATERMARK = datetime(2026, 3, 1, 12, tzinfo=UTC)
MS = int(WATERMARK.timestamp() * 1000)

WITHIN = OperatorPlan(sort=OperatorKind.DEDUPLICATE_WITHIN_WATERMARK, keys=b.columns("k string"))


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        pytest.param(b.an_aggregation(), 20, id="window"),
        pytest.param(
            b.an_aggregation(operators=(b.an_aggregate(), b.an_aggregate())), 40, id="two windows"
        ),
        pytest.param(b.a_deduplication("k string, ts timestamp"), 0, id="event time is a key"),
        pytest.param(b.an_aggregation(WITHIN), 60, id="within watermark"),
        pytest.param(b.a_join(), 5, id="join with a range"),
    ],
)
def test_the_oldest_row_that_counts_lies_as_far_back_as_state_reaches(
    plan: QueryPlan, seconds: int
) -> None:
    found = replay_start([plan], {"q": MS})

    assert found.at == WATERMARK - timedelta(seconds=seconds)
    assert found.complete_from == WATERMARK
    assert found.reach == timedelta(seconds=seconds)
    assert str(found.at.year) in found.reason


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        pytest.param(b.an_aggregation(watermarks=()), "no watermark", id="no watermark"),
        pytest.param(b.an_aggregation(output_mode="complete"), "complete mode", id="complete"),
        pytest.param(b.a_deduplication(), "kept for ever", id="keys without time"),
        pytest.param(b.a_session(), "session", id="session"),
        pytest.param(b.a_stateful_function(), "author's own", id="own state"),
        pytest.param(b.a_join(operator={"condition": "(k@0 = k@1)"}), "no range", id="join"),
    ],
)
def test_state_without_a_bound_needs_everything(plan: QueryPlan, says: str) -> None:
    found = replay_start([plan], {"q": MS})

    assert found.at is None
    assert found.complete_from is None
    assert says in found.reason


def test_the_range_of_a_join_is_read_from_the_plan_of_a_real_spark() -> None:
    [plan] = Plans.of("4.3.0")["pairs"].queries

    assert replay_start([plan], {plan.query: MS}).reach == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("type_", "value", "seconds"),
    [
        ("interval second", "5000000", 5),
        ("interval day to second", "-90000000", 90),
        ("interval month", "2", 62 * 86_400),
        ("interval", "1 minutes 5 seconds", 65),
    ],
)
def test_an_interval_is_read_in_each_form_of_spark(type_: str, value: str, seconds: int) -> None:
    bound = Expr("+", [ColumnRef("ts", 0), literal(value, type_)])
    plan = b.a_join(operator={"condition": Expr("<", [ColumnRef("ts", 1), bound])})

    assert replay_start([plan], {"q": MS}).reach == timedelta(seconds=seconds)


def test_a_query_that_has_no_watermark_yet_reads_from_the_beginning() -> None:
    assert "yet" in replay_start([b.an_aggregation()], {}).reason


def test_of_several_queries_the_one_that_reaches_furthest_decides() -> None:
    near, far = b.an_aggregation(), replace(b.an_aggregation(), query="far")

    found = replay_start([near, far, b.a_stateless(query="s")], {"q": MS, "far": MS - 60_000})

    assert found.at == WATERMARK - timedelta(seconds=80)
    assert found.complete_from == WATERMARK
    assert "'far'" in found.reason


def test_without_state_nothing_earlier_is_needed() -> None:
    found = replay_start([b.a_stateless()], {"q": MS})

    assert found.at is None
    assert "No query keeps state" in found.reason
