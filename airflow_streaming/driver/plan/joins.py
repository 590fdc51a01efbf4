"""
The columns that a join of two streams keeps in its state.

They are fewer than those of its sides: Spark prunes what nobody above the join asks for before it
runs the plan. So the optimiser is asked, once, and only of plans that hold such a join.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from airflow_streaming.core.plan.plan import Column, OperatorPlan, OperatorSort
from airflow_streaming.core.plan.types import columns_of
from airflow_streaming.driver.plan.operators import is_streaming
from airflow_streaming.driver.plan.tree import read_tree

Sides = tuple[tuple[Column, ...], tuple[Column, ...]]


def with_kept_columns(
    operators: Sequence[OperatorPlan], frame: Any, plan: Any, notes: list[str]
) -> tuple[OperatorPlan, ...]:
    """
    Return the operators, joins with the columns that they keep.

    :param frame: The streaming rows in the JVM; ``plan`` their analysed plan.
    :param notes: Gets a sentence when the optimiser cannot be asked.
    """
    joins = [one for one in operators if one.sort is OperatorSort.JOIN]
    if not joins:
        return tuple(operators)
    try:
        kept = _kept(frame, plan)
    except Exception as err:  # noqa: BLE001 - an optimiser of a vendor's may want more than a plan
        notes.append(f"The columns that a join keeps could not be read: {type(err).__name__}.")
        return tuple(operators)
    if len(kept) != len(joins):
        notes.append("The columns that a join keeps could not be read: Spark changes the joins.")
        return tuple(operators)
    sides = iter(kept)
    return tuple(_with(one, next(sides)) if one in joins else one for one in operators)


def _with(join: OperatorPlan, sides: Sides) -> OperatorPlan:
    return replace(join, left=sides[0], right=sides[1])


def _kept(frame: Any, plan: Any) -> list[Sides]:
    optimised = frame.sparkSession().sessionState().optimizer().execute(plan)
    tree = read_tree(optimised.toJSON())
    joins = [
        node
        for node in tree.walk()
        if node.name == "Join" and all(is_streaming(side) for side in node.children)
    ]
    return [
        (
            _columns(optimised.apply(join.children[0].index)),
            _columns(optimised.apply(join.children[1].index)),
        )
        for join in joins
    ]


def _columns(plan: Any) -> tuple[Column, ...]:
    return columns_of(json.loads(plan.schema().json()))
