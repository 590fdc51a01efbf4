"""
Stateful operators after Spark's optimizer: the columns that joins keep, the filters in front.

A join's state has fewer columns than its sides: before the plan runs, Spark prunes columns that no
operator above the join uses. So the optimizer is run once, only for plans with such a join.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.plan.columns import Names
from airflow_streaming.driver.plan.expressions import Wording
from airflow_streaming.driver.plan.hidden import Hidden
from airflow_streaming.driver.plan.nodes import Node, read_tree
from airflow_streaming.driver.plan.operators import (
    STATEFUL,
    WATERMARK_DELAY,
    equal_keys,
    has_event_time,
    ids_of,
    is_streaming,
    join_type_of,
)
from airflow_streaming.model.plan.schema import Column, columns_of
from airflow_streaming.model.plan.text import text_of
from airflow_streaming.model.plan.tree import Tree
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan

_SOME_TIME_MS: Final = 10**12


def with_kept_columns(
    operators: Sequence[OperatorPlan], optimized: Optimized | None, notes: list[str]
) -> tuple[OperatorPlan, ...]:
    """
    Return the operators, joins with the columns that they keep.

    :param optimized: ``None`` without an optimized plan.
    :param notes: Gets a sentence when a join is missing in the optimized plan.
    """
    joins = [one for one in operators if one.sort is OperatorKind.JOIN]
    if not joins or optimized is None:
        return tuple(operators)
    kept = _kept(optimized)
    if len(kept) != len(joins):
        notes.append("The columns that a join keeps could not be read: Spark changes the joins.")
        return tuple(operators)
    found = iter(kept)
    return tuple(_with(one, next(found)) if one in joins else one for one in operators)


class KeptColumns(NamedTuple):
    """The columns and filters of a join in the optimized plan."""

    left: tuple[Column, ...]
    right: tuple[Column, ...]
    join_type: str
    ends: bool


class Optimized(NamedTuple):
    """
    A plan as Spark has optimized it.

    :param plan: In the JVM, with what its JSON leaves out.
    """

    tree: Node
    plan: Hidden
    names: Names


def optimized_plan(frame: Any, plan: Any, gateway: Any, wording: Wording) -> Optimized:
    """Optimize a plan with Spark's optimizer; the plan is not run."""
    found = frame.sparkSession().sessionState().optimizer().execute(plan)
    tree = read_tree(found.toJSON())
    hidden = Hidden(found, gateway, wording.ansi).placed(tree)
    return Optimized(tree, hidden, Names(tree, replace(wording, hidden=hidden)))


def with_pushed_filters(
    operators: Sequence[OperatorPlan], optimized: Optimized | None, mode: str, notes: list[str]
) -> tuple[OperatorPlan, ...]:
    """Return the operators with the filters that Spark applies in front of each."""
    if not operators or optimized is None:
        return tuple(operators)
    nodes = [node for node in optimized.tree.walk() if _is_stateful(node, mode)]
    if len(nodes) != len(operators):
        notes.append(
            "The filters in front of state could not be read: Spark changes the operators."
        )
        return tuple(operators)
    return tuple(
        replace(one, pushed=tuple(_filters(node, optimized.names)))
        for one, node in zip(operators, nodes, strict=True)
    )


def _with(join: OperatorPlan, kept: KeptColumns) -> OperatorPlan:
    return replace(join, left=kept.left, right=kept.right, run_as=kept.join_type, ends=kept.ends)


def _is_stateful(node: Node, mode: str) -> bool:
    if node.name == "Join":
        return all(is_streaming(side) for side in node.children)
    if node.name == "GlobalLimit" and mode != "append":
        return False
    return node.name in STATEFUL and is_streaming(node)


def _filters(node: Node, names: Names) -> list[Tree]:
    conditions = (
        one.expression("condition")
        for child in node.children
        for one in child.walk()
        if one.name == "Filter"
    )
    waiting = [condition for condition in conditions if condition is not None]
    found = set()
    while waiting:
        one = waiting.pop()
        if one.name == "And":
            waiting.extend(one.children)
        elif one.name != "IsNotNull":
            found.add(names.tree(one))
    return sorted(found, key=text_of)


def _kept(optimized: Optimized) -> list[KeptColumns]:
    joins = [
        node
        for node in optimized.tree.walk()
        if node.name == "Join" and all(is_streaming(side) for side in node.children)
    ]
    at = optimized.plan.at
    return [
        KeptColumns(
            _columns(at(join.children[0])),
            _columns(at(join.children[1])),
            join_type_of(join),
            _join_ends(join, optimized.plan),
        )
        for join in joins
    ]


def _join_ends(join: Node, plan: Hidden) -> bool:
    condition = join.expression("condition")
    pairs = [] if condition is None else equal_keys(condition, ids_of(join.children[0]))
    if any(has_event_time(plan, one) for pair in pairs for one in pair):
        return True
    try:
        return _bounds_times(plan.at(join), plan.gateway.jvm)
    except Exception:  # noqa: BLE001 - an unreadable bound counts as endless
        return False


def _bounds_times(join: Any, jvm: Any) -> bool:
    """Tell whether the condition bounds the times of both sides, by Spark's own function."""
    catalyst = jvm.org.apache.spark.sql.catalyst
    helper, mark = catalyst.analysis.StreamingJoinHelper, jvm.scala.Some(_SOME_TIME_MS)
    pairs = ((join.left(), join.right()), (join.right(), join.left()))
    for side, other in pairs:
        timed = _timed(other.output(), catalyst.expressions.AttributeSet)
        if timed is None:
            return False
        found = helper.getStateValueWatermark(side.outputSet(), timed, join.condition(), mark)
        if not found.isDefined():
            return False
    return True


def _timed(output: Any, sets: Any) -> Any:
    found = None
    for place in range(output.size()):
        column = output.apply(place)
        if column.metadata().contains(WATERMARK_DELAY):
            found = sets.apply(column) if found is None else getattr(found, "$plus")(column)
    return found


def _columns(plan: Any) -> tuple[Column, ...]:
    return columns_of(json.loads(plan.schema().json()))
