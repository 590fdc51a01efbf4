"""The stateful operators of a plan, and the columns of their state."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from airflow_streaming.driver.plan.columns import (
    Names,
    definitions,
    duration,
    gap_of,
    is_window,
    time_column,
    window_of,
)
from airflow_streaming.driver.plan.expressions import node_options, unnamed
from airflow_streaming.driver.plan.hidden import Hidden
from airflow_streaming.driver.plan.nodes import Node
from airflow_streaming.driver.plan.sources import SOURCES, column_of
from airflow_streaming.model.plan.schema import Column, columns_of, type_name
from airflow_streaming.model.plan.text import text_of
from airflow_streaming.model.plan.tree import ColumnRef, Expr, Tree
from airflow_streaming.model.plan.variables import StateVariable
from airflow_streaming.model.spark.plan import OPAQUE, OperatorKind, OperatorPlan

Variables = Mapping[str, tuple[StateVariable, ...]]
"""Of ``transformWithState``: the state by the id of its function."""

_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
WATERMARK_DELAY: Final = "spark.watermarkDelayMs"
"""Spark's metadata key of a column with a watermark."""


def functions_of(node: Node, names: Names) -> dict[Tree, Node]:
    """Return the aggregate functions in their order, each once, by their tree."""
    found: dict[Tree, Node] = {}
    for output in node.expressions("aggregateExpressions"):
        for one in output.walk():
            if one.name == "AggregateExpression":
                found.setdefault(names.key(one), one)
    return found


def outputs_of(function: Tree, node: Node, names: Names) -> tuple[str, ...]:
    """Return the names of the columns that an aggregate function is in."""
    return tuple(
        str(output.fields.get("name", "?"))
        for output in node.expressions("aggregateExpressions")
        if any(
            one.name == "AggregateExpression" and names.key(one) == function
            for one in output.walk()
        )
    )


def types_of(
    functions: Mapping[Tree, Node], node: Node, schema: tuple[Column, ...], names: Names
) -> list[str]:
    """
    Return the type of each function's result.

    :param schema: The columns that the aggregation gives.
    """
    outputs = node.expressions("aggregateExpressions")
    known = {
        names.key(unnamed(output)): schema[place].type
        for place, output in enumerate(outputs)
        if place < len(schema)
    }
    return [known.get(key) or _inner_types(function) for key, function in functions.items()]


class Reader:
    """
    Reads the operators of one plan.

    :param plan: The plan in the JVM, with what its JSON leaves out.
    :param output_mode: Of the query; a limit keeps state in append mode only.
    :param variables: Of ``transformWithState``: the state by the id of its function.
    """

    def __init__(
        self, plan: Hidden, names: Names, *, output_mode: str, variables: Variables
    ) -> None:
        self._plan, self._names = plan, names
        self._mode, self._variables = output_mode, variables

    def read(self, node: Node) -> OperatorPlan | None:
        """Return a node's stateful operator; ``None`` for a node without state."""
        read = STATEFUL.get(node.name)
        if read is None or not is_streaming(node):
            return None
        return read(self, node)

    def _aggregate(self, node: Node) -> OperatorPlan:
        below, grouping = node.children[0], node.expressions("groupingExpressions")
        known = definitions(below)
        functions = functions_of(node, self._names)
        schema = self._schema(node)
        made = OperatorPlan(
            sort=OperatorKind.AGGREGATE,
            keys=tuple(self._key(key, node, schema) for key in grouping),
            key_expressions=tuple(self._key_tree(key, below) for key in grouping),
            values=self._values(functions, below),
            value_types=tuple(types_of(functions, node, schema, self._names)),
            output_names=tuple(outputs_of(key, node, self._names) for key in functions),
            results=tuple(map(self._names.tree, node.expressions("aggregateExpressions"))),
            ends=any(has_event_time(self._plan, key) for key in grouping),
        )
        windows = [d for key in grouping if (d := known.get(key.expression_id)) and is_window(d)]
        for definition in windows:
            length = window_of(definition)
            if length is not None:
                made = replace(made, window_us=length)
            else:
                gap = gap_of(definition, self._names)
                made = replace(made, sort=OperatorKind.SESSION_WINDOW, gap=gap)
        return made

    def _values(self, functions: Mapping[Tree, Node], below: Node) -> tuple[Tree, ...]:
        return tuple(self._names.computed(one, below) for one in functions.values())

    def _key(self, key: Node, node: Node, schema: tuple[Column, ...]) -> Column:
        if key.name == "AttributeReference":
            return column_of(key)
        tree = self._names.tree(unnamed(key))
        outputs = node.expressions("aggregateExpressions")
        for place, output in enumerate(outputs):
            if self._names.tree(unnamed(output)) == tree and place < len(schema):
                return schema[place]
        return Column(name=text_of(tree), type="?")

    def _key_tree(self, key: Node, below: Node) -> Tree:
        definition = definitions(below).get(key.expression_id)
        if definition is None or not is_window(definition):
            return self._names.computed(unnamed(key), below)
        column = time_column(definition)
        of = [] if column is None else [self._names.computed(column, below)]
        length = window_of(definition)
        if length is None:
            gap = gap_of(definition, self._names)
            return Expr("session_window", of if gap is None else [*of, gap])
        names = ("length", "slide", "start")
        lengths = zip(names, map(duration, _shown_window(length)), strict=False)
        return Expr("window", of, options=dict(lengths))

    def _distinct(self, node: Node) -> OperatorPlan:
        columns = self._schema(node)
        names = tuple(column.name for column in columns)
        return OperatorPlan(
            sort=OperatorKind.AGGREGATE, keys=columns, key_expressions=tuple(map(ColumnRef, names))
        )

    def _deduplicate(self, node: Node) -> OperatorPlan:
        keys = node.expressions("keys")
        within = node.name == "DeduplicateWithinWatermark"
        return OperatorPlan(
            sort=OperatorKind.DEDUPLICATE_WITHIN_WATERMARK if within else OperatorKind.DEDUPLICATE,
            keys=tuple(map(column_of, keys)),
            key_expressions=tuple(self._names.computed(k, node.children[0]) for k in keys),
            ends=within or any(has_event_time(self._plan, key) for key in keys),
        )

    def _join(self, node: Node) -> OperatorPlan | None:
        left, right = node.children
        if not (is_streaming(left) and is_streaming(right)):
            return None
        condition = node.expression("condition")
        pairs = [] if condition is None else equal_keys(condition, ids_of(left))
        sides = (left, right)
        return OperatorPlan(
            sort=OperatorKind.JOIN,
            keys=tuple(column_of(a) for a, _ in pairs if a.name == "AttributeReference"),
            key_expressions=tuple(
                Expr("=", (self._names.computed(a, left), self._names.computed(b, right)))
                for a, b in pairs
            ),
            join_type=join_type_of(node),
            condition=None if condition is None else self._names.tree(condition),
            left=self._schema(sides[0]),
            right=self._schema(sides[1]),
        )

    def _limit(self, node: Node) -> OperatorPlan | None:
        if self._mode != "append":
            return None
        number = node.expression("limitExpr")
        values = () if number is None else (self._names.tree(number),)
        return OperatorPlan(sort=OperatorKind.LIMIT, values=values)

    def _groups(self, node: Node) -> OperatorPlan:
        grouping = node.expressions("groupingAttributes")
        function = node.expression("functionExpr")
        return OperatorPlan(
            sort=OperatorKind.GROUPS_WITH_STATE,
            keys=tuple(map(column_of, grouping)),
            key_expressions=tuple(self._names.computed(k, node.children[0]) for k in grouping),
            state_columns=columns_of(node.fields.get("stateType")),
            output_columns=tuple(map(column_of, node.expressions("outputAttrs"))),
            timeout=node.object("timeout"),
            function="" if function is None else str(function.fields.get("name", "")),
            code=self._code(function),
        )

    def _code(self, function: Node | None) -> str:
        if function is None:
            return f"{OPAQUE} function"
        return self._plan.said(function).get("func") or f"{OPAQUE} function"

    def _transform(self, node: Node) -> OperatorPlan:
        # Spark puts the keys in front of the columns that the function gets.
        count = node.fields.get("groupingAttributesLen")
        first = node.children[0].expressions("projectList")[: count if type(count) is int else 0]
        grouping = node.expressions("groupingAttributes") or first
        function = node.expression("functionExpr")
        result_id = function.fields.get("resultId") if function is not None else None
        key = str(result_id.get("id", "")) if isinstance(result_id, Mapping) else ""
        return OperatorPlan(
            sort=OperatorKind.TRANSFORM_WITH_STATE,
            keys=tuple(map(column_of, map(unnamed, grouping))),
            key_expressions=tuple(self._names.computed(k, node.children[0]) for k in grouping),
            variables=self._variables.get(key, ()),
            output_columns=tuple(map(column_of, node.expressions("outputAttrs"))),
            time_mode=node.object("timeMode"),
            code=self._code(function),
        )

    def _other(self, node: Node) -> OperatorPlan:
        options = node_options(node, self._names.wording)
        tree = Expr(node.name, map(self._names.tree, node.all_expressions()), options=options)
        return OperatorPlan(sort=OperatorKind.OTHER, results=(tree,))

    def _schema(self, node: Node) -> tuple[Column, ...]:
        return columns_of(json.loads(self._plan.at(node).schema().json()))


STATEFUL: Final[Mapping[str, Callable[[Reader, Node], OperatorPlan | None]]] = {
    "Aggregate": Reader._aggregate,
    "Distinct": Reader._distinct,
    "Deduplicate": Reader._deduplicate,
    "DeduplicateWithinWatermark": Reader._deduplicate,
    "Join": Reader._join,
    "GlobalLimit": Reader._limit,
    "FlatMapGroupsInPandasWithState": Reader._groups,
    "TransformWithStateInPandas": Reader._transform,
    "TransformWithStateInPySpark": Reader._transform,
    "FlatMapGroupsWithState": Reader._other,
    "MapGroupsWithState": Reader._other,
    "TransformWithState": Reader._other,
    "Except": Reader._other,
    "Intersect": Reader._other,
    "Window": Reader._other,
}


def has_event_time(plan: Hidden, expression: Node) -> bool:
    """Tell whether a column carries a watermark, as Spark itself tells it; a doubt is a no."""
    try:
        return bool(plan.at(expression).metadata().contains(WATERMARK_DELAY))
    except Exception:  # noqa: BLE001 - an expression without a name of its own carries none
        return False


def is_streaming(node: Node) -> bool:
    """Tell whether rows keep coming out of a plan."""
    return any(
        one.name in SOURCES or (one.name == "CTERelationRef" and one.fields.get("isStreaming"))
        for one in node.walk()
    )


def join_type_of(node: Node) -> str:
    """Return a join's type as SQL spells it, such as ``left_outer``."""
    name = node.object("joinType") or "?"
    return _HUMP.sub("_", name).lower()


def ids_of(plan: Node) -> frozenset[str]:
    """Return the ids of all expressions in a plan."""
    return frozenset(
        one.expression_id
        for node in plan.walk()
        for expression in node.all_expressions()
        for one in expression.walk()
        if one.expression_id
    )


def equal_keys(condition: Node, left: frozenset[str]) -> list[tuple[Node, Node]]:
    """Return the pairs of columns that a join's condition holds equal, the left side's first."""
    found = []
    waiting = [condition]
    while waiting:
        node = waiting.pop(0)
        if node.name == "And":
            waiting[:0] = node.children
        elif node.name in ("EqualTo", "EqualNullSafe"):
            a, b = node.children
            found.append((a, b) if _is_of(a, left) else (b, a))
    return [(a, b) for a, b in found if _is_of(a, left) and not _is_of(b, left)]


def _inner_types(function: Node) -> str:
    # The JSON omits a larger expression's own type; the types of its parts stand for it.
    of = [
        type_name(one.fields.get("dataType"))
        for one in function.walk()
        if one.name in ("AttributeReference", "Cast")
    ]
    return f"of {', '.join(of)}" if of else ""


def _shown_window(window: tuple[int, int, int]) -> tuple[int, ...]:
    length, slide, start = window
    if start:
        return window
    return (length,) if length == slide else (length, slide)


def _is_of(expression: Node, ids: frozenset[str]) -> bool:
    columns = [one.expression_id for one in expression.walk() if one.name == "AttributeReference"]
    return bool(columns) and all(column in ids for column in columns)
