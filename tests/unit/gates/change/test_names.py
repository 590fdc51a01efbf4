"""What the gate says of an edit does not depend on what the columns are called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.change.pair import QUOTED
from airflow_streaming.gates.findings import GateDecision, worst
from airflow_streaming.model.spark.plan import QueryPlan
from tests.system.edits.plans import Plans

COLUMNS = "amount|shop|user|total|number|id|ts|window|begin|sale|at|seen"
TEXTS = frozenset(
    {"text", "key_expressions", "values", "results", "condition", "pushed", "time", "outputs"}
)
"""Fields that hold expressions, in which a name that is no word is quoted."""
NAMES = frozenset({"name", "column", "partitioned_by"})
_WORD = re.compile(rf"(?<!\w)(?:{COLUMNS})(?!\w)")
_PART = re.compile(rf"{QUOTED.pattern}|{_WORD.pattern}")


def renamed(told: Any, more: str, field: str = "") -> Any:
    """Return the record of a plan whose columns have something more in their names."""
    if isinstance(told, dict):
        return {key: renamed(value, more, key) for key, value in told.items()}
    if isinstance(told, list):
        return [renamed(one, more, field) for one in told]
    if not isinstance(told, str) or field not in TEXTS | NAMES:
        return told
    return _PART.sub(_quoted(more), told) if field in TEXTS else _WORD.sub(rf"\g<0>{more}", told)


def _quoted(more: str) -> Callable[[re.Match[str]], str]:
    doubled = more.replace("`", "``")

    def one(found: re.Match[str]) -> str:
        text = found[0]
        if text.startswith("`"):
            return _WORD.sub(rf"\g<0>{doubled}", text)
        return text if text.startswith("'") else f"`{text}{doubled}`"

    return one


def edits() -> Iterator[tuple[str, QueryPlan, QueryPlan]]:
    """Yield every recorded edit with the old plan and the new one of each query."""
    plans = Plans.of("4.3.0")
    for name, plan in plans._plans.items():
        pairs = product(plans[name.partition(".")[0]].queries, plan.queries)
        yield from ((name, old, new) for old, new in pairs if old.query == new.query)


def answer(old: QueryPlan, new: QueryPlan) -> GateDecision:
    return worst(finding.severity for finding in judge_change(old, new, None))


@pytest.mark.parametrize("more", [" (EUR, x)", ".x", " AS z", " 'n", " `a, b", "@3"])
def test_columns_whose_names_are_no_words_change_no_answer(more: str) -> None:
    other = {}
    for name, old, new in edits():
        as_is = answer(old, new)
        quoted = answer(*(QueryPlan.from_dict(renamed(one.to_dict(), more)) for one in (old, new)))
        if quoted is not as_is:
            other[name] = (as_is, quoted)

    assert other == {}
