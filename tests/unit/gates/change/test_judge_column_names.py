"""What the gate says of an edit does not depend on what the columns are called."""

from __future__ import annotations

import re
from itertools import product
from typing import Any, NamedTuple

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.findings import GateDecision, worst
from airflow_streaming.model.spark.plan import QueryPlan
from tests.system.edits.plans import Plans

COLUMNS = "amount|shop|user|total|number|id|ts|window|begin|sale|at|seen"
NAMES = frozenset(
    {
        *("name", "column", "partitioned_by", "output_names", "args", "key_expressions", "values"),
        *("results", "condition", "pushed", "time"),
    }
)
"""Fields that hold names of columns, or expressions, in which a text is a column."""
_WORD = re.compile(rf"(?<!\w)(?:{COLUMNS})(?!\w)")


def renamed(told: Any, more: str, field: str = "") -> Any:
    """Return the record of a plan whose columns have something more in their names."""
    if isinstance(told, dict):
        return {key: renamed(value, more, key) for key, value in told.items()}
    if isinstance(told, list):
        return [renamed(one, more, field) for one in told]
    return _WORD.sub(rf"\g<0>{more}", told) if isinstance(told, str) and field in NAMES else told


class Edit(NamedTuple):
    """A recorded edit of one query: both plans, as records too, and what the gate says of it."""

    name: str
    old: dict[str, Any]
    new: dict[str, Any]
    answer: GateDecision


@pytest.fixture(scope="module")
def edits() -> list[Edit]:
    plans = Plans.of("4.3.0")
    return [
        Edit(name, old.to_dict(), new.to_dict(), answer(old, new))
        for name, plan in plans._plans.items()
        for old, new in product(plans[name.partition(".")[0]].queries, plan.queries)
        if old.query == new.query
    ]


def answer(old: QueryPlan, new: QueryPlan) -> GateDecision:
    return worst(finding.severity for finding in judge_change(old, new, None))


@pytest.mark.parametrize("more", [" (EUR, x)", ".x", " AS z", " 'n", " `a, b", "@3"])
def test_columns_whose_names_are_no_words_change_no_answer(edits: list[Edit], more: str) -> None:
    other = {}
    for edit in edits:
        old, new = (QueryPlan.from_dict(renamed(one, more)) for one in (edit.old, edit.new))
        quoted = answer(old, new)
        if quoted is not edit.answer:
            other[edit.name] = (edit.answer, quoted)

    assert other == {}
