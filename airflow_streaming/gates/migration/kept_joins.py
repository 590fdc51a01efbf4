"""
Joins that keep their rows under another condition or type.

The state of a stream-stream join holds whole rows. An inner join reads only these rows, so they can serve another condition
between both sides. Rows that the old condition has removed are gone. The state of an outer join also has a flag for rows
with a partner, and the old type or condition has set it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from airflow_streaming.gates.change import joins
from airflow_streaming.model.plan.tree import ColumnRef, Tree, conjuncts, used_in
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan

LIFTED: Final = frozenset({joins.TYPE.name, joins.CONDITION.name})
"""Rules that refuse nothing where every changed join keeps its rows."""
EFFECT: Final = "rows that the old join has removed from its state find no partner"
_INNER: Final = "inner"


def keeps_rows(old: OperatorPlan, new: OperatorPlan) -> bool:
    """Tell whether a new condition or type can use the old state of a join."""
    if new.sort is not OperatorKind.JOIN or (new.run_as or new.join_type) != _INNER:
        return False
    as_new = replace(
        old, condition=new.condition, join_type=new.join_type, run_as=new.run_as, code=new.code
    )
    return as_new == new and all(_is_of_both_sides(one, new) for one in _differing(old, new))


def _differing(old: OperatorPlan, new: OperatorPlan) -> Iterator[Tree]:
    was, now = _conjuncts(old), _conjuncts(new)
    yield from (one for one in was if one not in now)
    yield from (one for one in now if one not in was)


def _conjuncts(operator: OperatorPlan) -> list[Tree]:
    return [] if operator.condition is None else conjuncts(operator.condition)


def _is_of_both_sides(condition: Tree, join: OperatorPlan) -> bool:
    """Tell whether a condition needs both sides; by a condition of one side Spark keeps other rows."""
    left, right = ({column.name for column in side} for side in (join.left, join.right))
    if left & right:
        return False
    sides = ([ColumnRef(name) for name in sorted(names)] for names in (left, right))
    return all(used_in([condition], side) for side in sides)
