"""Columns that a comparison would call different are found before green starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.changes.judging.compared_columns import judge_compared
from airflow_streaming.changes.judging.methods import switch_ways
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.plan import QueryPlan
from tests.unit.gates.change import builders as b

TERMS = CompareTerms(stream="orders", sums=("total",))
MINUTE, TOTAL, HIGHEST = (
    Column(name="minute", type="timestamp"),
    Column(name="total", type="double"),
    Column(name="highest", type="double"),
)


def writing(*columns: Column, query: str = "q", by: tuple[str, ...] = ()) -> QueryPlan:
    plan = b.a_stateless()
    sink = replace(plan.sink, format="parquet", schema=columns, partitioned_by=by)
    return replace(plan, query=query, sink=sink)


def test_a_new_column_refuses_the_cutover_and_names_what_to_ignore() -> None:
    report = switch_ways(
        *([writing(MINUTE, TOTAL)], [writing(MINUTE, TOTAL, HIGHEST)], [], StartWay.FRESH),
        compared=[replace(TERMS, ignore=("note",))],
    )
    for way in SwitchMethod:
        (found,) = [one for one in report.of(way).findings if one.rule.endswith("compared_columns")]
        assert found.severity is GateDecision.NOT_ALLOWED
        assert (found.old, found.new) == ("highest missing", "highest double")
        assert "ignore=('note', 'highest',)" in found.remedy


@pytest.mark.parametrize(
    ("old", "new", "terms"),
    [
        pytest.param(
            [writing(TOTAL)],
            [writing(TOTAL, HIGHEST)],
            replace(TERMS, ignore=("highest",)),
            id="ignored",
        ),
        pytest.param(
            [writing(TOTAL)],
            [writing(TOTAL, HIGHEST)],
            replace(TERMS, format="json"),
            id="no schema in the files",
        ),
        pytest.param([writing(TOTAL)], [writing()], TERMS, id="schema not recorded"),
        pytest.param([], [writing(TOTAL)], TERMS, id="blue not recorded"),
        pytest.param(
            [writing(TOTAL), writing(TOTAL, query="r")],
            [writing(HIGHEST), writing(TOTAL, query="r")],
            TERMS,
            id="two queries: the compared one is not known",
        ),
        pytest.param(
            [writing(TOTAL, Column(name="day", type="date"), by=("day",))],
            [writing(TOTAL, Column(name="day", type="string"), by=("day",))],
            TERMS,
            id="type of a partition column",
        ),
    ],
)
def test_no_finding(old: list[QueryPlan], new: list[QueryPlan], terms: CompareTerms) -> None:
    assert [*judge_compared(old, new, [terms])] == []


def test_another_type_differs() -> None:
    text = Column(name="total", type="string")
    (found,) = judge_compared([writing(MINUTE, TOTAL)], [writing(MINUTE, text)], [TERMS])
    assert (found.old, found.new) == ("total double", "total string")
