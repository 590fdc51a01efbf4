"""
Steps in front of an operator that keeps state: they decide what its state was made of.

Where the state ends by itself, as windows do behind a watermark, a change settles. Where it does
not, the state holds for ever what the old code made.
"""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.compatibility.change.ending import ends_by_itself
from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.change.texts import items_of, names_in
from airflow_streaming.core.compatibility.finding import GateDecision
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import OperatorPlan

_GUIDE: Final = "Structured Streaming guide, recovery semantics: projections, filters and maps"
_ASK: Final = (
    "Start with a new checkpoint (blue-green) where every group has to be made by one code."
)

FILTER_BEFORE: Final = Rule(
    name="step.filter_before_state",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A filter in front of state that ends may change: groups which are open now are made "
    "by both, later ones by the new filter alone.",
    source=f"{_GUIDE}; measured: starts, and is right once the open windows are closed",
    remedy=_ASK,
)
FILTER_BEFORE_ENDLESS: Final = Rule(
    name="step.filter_before_endless_state",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A filter in front of state that has no end must stay: what the old one let through, "
    "or kept out, stays in the state for ever.",
    source="measured: starts, and every later total is made by both filters",
    remedy=f"{_ASK} Or filter behind the state.",
)
BEFORE: Final = Rule(
    name="step.before_state",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A step in front of state that ends may change: groups which are open now are made by "
    "both, later ones by the new code alone.",
    source=_GUIDE,
    remedy=_ASK,
)
BEFORE_ENDLESS: Final = Rule(
    name="step.before_endless_state",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A step in front of state that has no end must stay: the state goes on holding what "
    "the old one made.",
    source="as for filters, measured: every later total is made by both",
    remedy=_ASK,
)
UNUSED_BEFORE: Final = Rule(
    name="step.unused_before_state",
    severity=GateDecision.ALLOWED,
    sentence="A column in front of state may come and go where the state is not made of it.",
    source=_GUIDE,
)
COLUMN_BEFORE: Final = Rule(
    name="step.column_before_state",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A column that state is made of must be computed as before: else the state mixes two "
    "meanings under one name.",
    source="measured: sum(v) over another v starts, as sum to max does",
    remedy="Compute the new one under a new name in a query with a new checkpoint (blue-green).",
)
TANGLED_BEFORE: Final = Rule(
    name="step.projection_before_state",
    severity=GateDecision.UNKNOWN,
    sentence="The projection in front of state changes in a way that could not be followed.",
    source="no rule covers it",
    remedy="Rehearse it, and compare the columns that the state is made of yourself.",
)

RULES: Final = (
    FILTER_BEFORE,
    FILTER_BEFORE_ENDLESS,
    BEFORE,
    BEFORE_ENDLESS,
    UNUSED_BEFORE,
    COLUMN_BEFORE,
    TANGLED_BEFORE,
)


def rule_before(pair: Pair, below: int, sort: str, old: list[str], new: list[str]) -> Rule | None:
    """
    Return the rule for a changed step in front of so many operators.

    :return: ``None`` where it matters no more than behind them.
    """
    if sort == "project":
        return _projection_before(pair, below, old, new)
    ends = all(ends_by_itself(pair.old, each) for each in pair.old.operators[:below])
    if sort == "filter":
        return FILTER_BEFORE if ends else FILTER_BEFORE_ENDLESS
    return BEFORE if ends else BEFORE_ENDLESS


def _projection_before(pair: Pair, below: int, old: list[str], new: list[str]) -> Rule | None:
    changed = _changed_columns(old, new)
    if changed is None:
        return TANGLED_BEFORE
    # Every operator behind the step is fed by it, through those between.
    fed = pair.old.operators[:below]
    named = names_in([text for operator in fed for text in _made_of(operator)], changed)
    is_used = named is None or bool(named) or any(map(_takes_all, fed))
    if not changed:
        return UNUSED_BEFORE
    return COLUMN_BEFORE if is_used else None


def _changed_columns(old: list[str], new: list[str]) -> set[str] | None:
    """Return columns that both compute, each in its own way; ``None`` when that cannot be told."""
    before, after = _merged(old), _merged(new)
    if before is None or after is None:
        return None
    changed = {name for name in before if name in after and before[name] != after[name]}
    return _with_made_of_them(changed | _reused_names(before, after), after)


def _reused_names(before: dict[str, list[str]], after: dict[str, list[str]]) -> set[str]:
    # v taken from the source before, and computed under the same name now, or the other way round.
    return {
        name
        for name, ways in (*before.items(), *after.items())
        if (name in before) != (name in after) and any(way != name for way in ways)
    }


def _with_made_of_them(changed: set[str], ways: dict[str, list[str]]) -> set[str] | None:
    found, size = set(changed), -1
    while len(found) != size:
        size = len(found)
        for name, texts in ways.items():
            named = names_in(texts, found)
            if named is None:
                return None
            if named:
                found.add(name)
    return found


def _merged(texts: list[str]) -> dict[str, list[str]] | None:
    # Several projections on top of each other: a column's ways, in order, without mere passing on.
    found: dict[str, list[str]] = {}
    for text in texts:
        items = items_of(text)
        if items is None:
            return None
        for name, way in items.items():
            ways = found.setdefault(name, [])
            if way != name:
                ways.append(way)
    return found


def _made_of(operator: OperatorPlan) -> list[str]:
    columns = (*operator.keys, *operator.left, *operator.right)
    return [
        *(column.name for column in columns),
        *operator.key_expressions,
        *operator.values,
        operator.condition,
    ]


def _takes_all(operator: OperatorPlan) -> bool:
    # A user's function sees every column.
    return bool(operator.function or operator.state_schema)
