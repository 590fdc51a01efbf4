"""EXCEPT with a stream on its left: Spark 4.4 refuses it of new queries, and a checkpoint keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.change.steps import subtracts_from_stream
from airflow_streaming.gates.findings import GateDecision, worst
from airflow_streaming.model.spark.plan import NodePlan, QueryPlan
from tests.unit.gates.change.builders import a_checkpoint, a_stateless

STATELESS = a_checkpoint(operators=(), is_stateful=False)


def nodes(*pairs: tuple[str, str]) -> tuple[NodePlan, ...]:
    return tuple(NodePlan(node=name, branch=branch) for name, branch in pairs)


MINUS_TABLE = nodes(("Project", ""), ("Except", ""), ("Filter", ".0"), ("LogicalRelation", ".1"))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(MINUS_TABLE, True, id="a stream minus a table"),
        pytest.param(nodes(("Except", "")), True, id="a stream alone"),
        pytest.param(nodes(("Project", "")), False, id="no EXCEPT"),
        pytest.param(
            nodes(
                ("Join", ""),
                ("Except", ".1"),
                ("LogicalRelation", ".1.0"),
                ("LogicalRelation", ".1.1"),
            ),
            False,
            id="two tables beside a stream",
        ),
        pytest.param(
            nodes(("Except", ""), ("Join", ".0"), ("LogicalRelation", ".0.1")),
            True,
            id="a stream joined with a table",
        ),
    ],
)
def test_the_left_side_is_found(found: tuple[NodePlan, ...], expected: bool) -> None:
    assert subtracts_from_stream(a_stateless(nodes=found)) is expected


def minus(spark: str, refusal: str = "") -> QueryPlan:
    return a_stateless(spark=spark, nodes=MINUS_TABLE, refusal=refusal)


REFUSAL = "EXCEPT on a streaming DataFrame/Dataset on the left is not supported"


@pytest.mark.parametrize(
    ("old", "spark", "has_begun", "rule"),
    [
        pytest.param(None, "4.4.0", False, "step.except_refused", id="a new query"),
        pytest.param(minus("4.3.0"), "4.4.0", True, "step.except_kept", id="an old one"),
        pytest.param(
            a_stateless(spark="4.3.0"), "4.4.0", True, "step.except_refused", id="added to one"
        ),
        pytest.param(
            minus("4.3.0"), "4.4.0", False, "step.except_refused", id="on a new checkpoint"
        ),
        pytest.param(None, "4.3.0", False, None, id="before 4.4"),
    ],
)
def test_a_checkpoint_keeps_it(
    old: QueryPlan | None, spark: str, has_begun: bool, rule: str | None
) -> None:
    new = minus(spark, REFUSAL if rule else "")
    found = judge_change(old, new, STATELESS if has_begun else None)
    rules = {one.rule for one in found}

    assert {one for one in rules if one.startswith("step.except")} == ({rule} if rule else set())
    assert ("spark.refuses" in rules) is (rule == "step.except_refused")


def test_another_refusal_is_not_kept() -> None:
    old, new = minus("4.3.0"), minus("4.4.0", "Sorting is not supported on streaming DataFrames")
    found = judge_change(old, replace(new, conf=old.conf), STATELESS)

    assert worst(one.severity for one in found) is GateDecision.NOT_ALLOWED
