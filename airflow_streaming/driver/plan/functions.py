"""The aggregate functions of an aggregation: what each is, what it gives, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_streaming.core.plan.plan import Column
from airflow_streaming.core.plan.types import type_name
from airflow_streaming.driver.plan.names import Names, unnamed
from airflow_streaming.driver.plan.tree import Node


def functions_of(node: Node) -> dict[str, Node]:
    """Return the aggregate functions in their order, each once, by their text."""
    found: dict[str, Node] = {}
    for output in node.expressions("aggregateExpressions"):
        for one in output.walk():
            if one.name == "AggregateExpression":
                found.setdefault(Names.key(one), one)
    return found


def outputs_of(function: str, node: Node) -> list[str]:
    """Return the names of the columns that an aggregate function is in."""
    return [
        str(output.fields.get("name", "?"))
        for output in node.expressions("aggregateExpressions")
        if any(
            one.name == "AggregateExpression" and Names.key(one) == function
            for one in output.walk()
        )
    ]


def types_of(functions: Mapping[str, Node], node: Node, schema: tuple[Column, ...]) -> list[str]:
    """
    Return the type of each function's result.

    :param schema: The columns that the aggregation gives.
    """
    outputs = node.expressions("aggregateExpressions")
    known = {
        Names.key(unnamed(output)): schema[place].type
        for place, output in enumerate(outputs)
        if place < len(schema)
    }
    return [known.get(key) or _inner_types(function) for key, function in functions.items()]


def _inner_types(function: Node) -> str:
    # Inside a larger expression its own type is not told; that of what it is made of is.
    of = [
        type_name(one.fields.get("dataType"))
        for one in function.walk()
        if one.name in ("AttributeReference", "Cast")
    ]
    return f"of {', '.join(of)}" if of else ""
