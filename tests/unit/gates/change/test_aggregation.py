"""Columns that aggregate functions keep in state."""

from __future__ import annotations

import pytest

from airflow_streaming.gates.change.aggregation import buffers_of, function_of
from airflow_streaming.model.plan.tree import Expr
from tests.trees import tree


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (tree("sum(v)"), "sum"),
        (Expr("aggregate", (tree("sum(v)"),)), "sum"),
        (Expr("aggregate", (tree("sum(v)"), tree("(v > 1)"))), ""),
        (tree("v"), ""),
    ],
    ids=["bare", "as_spark_wraps_it", "with_a_filter", "a_column"],
)
def test_a_function_has_a_name_where_it_reads_every_row(value: Expr, name: str) -> None:
    assert function_of(value) == name


def test_columns_in_state_are_known_only_if_each_function_is() -> None:
    assert buffers_of([tree("avg(v)"), Expr("aggregate", (tree("max(v)"),))]) == [
        "sum",
        "count",
        "max",
    ]
    assert buffers_of([tree("avg(v)"), tree("of_a_vendor(v)")]) is None
