"""
The texts that a plan can give the rows in one column, e.g. the topics of a Kafka sink without the option ``topic``.

A literal is one text. A condition (``when``, ``if``, ``coalesce``) has the texts of all its branches, and a union has
the texts of all its inputs. Any other expression can have any text, so the set is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_streaming.driver.plan.nodes import Node

_PASSES_COLUMNS: Final = frozenset(
    {
        *("Deduplicate", "DeduplicateWithinWatermark", "Distinct", "EventTimeWatermark", "Filter"),
        *("GlobalLimit", "LocalLimit", "Repartition", "RepartitionByExpression", "ResolvedHint"),
        *("Sort", "SubqueryAlias", "View"),
    }
)
"""Nodes with one child and exactly the columns of that child."""
_LISTS: Final = {"Project": "projectList", "Aggregate": "aggregateExpressions"}
"""Fields with the columns of nodes that compute columns."""
_ONE_VALUE: Final = frozenset({"Alias", "Cast", "IfNull", "KnownNotNull", "Nvl"})
"""Expressions with the value of their only child."""
MOST: Final = 1000
"""A column with more texts is unknown: no finding names so many."""


class _Unknown(Exception):
    """A row can have any text."""


def texts_of(tree: Node, name: str) -> tuple[str, ...]:
    """Return every text that a plan can give a row in a column, sorted; empty where a row can have any text."""
    try:
        return tuple(sorted(_Texts().of_name(tree, name)))
    except (_Unknown, RecursionError):
        return ()


class _Texts:
    """Reads the texts of columns; each column once, because a plan made in a loop names it many times."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], frozenset[str]] = {}

    def of_name(self, tree: Node, name: str) -> frozenset[str]:
        node = _below(tree)
        for place, column in enumerate(_columns(node)):
            if str(column.fields.get("name")).lower() == name:
                return self._of_place(node, place)
        raise _Unknown

    def _of_place(self, node: Node, place: int) -> frozenset[str]:
        if node.name == "Union":
            return self._any(self._of_place(_below(child), place) for child in node.children)
        columns = _columns(node)
        if node.name not in _LISTS or place >= len(columns):
            raise _Unknown
        return self._of_expression(columns[place], node)

    def _of_id(self, node: Node, wanted: str) -> frozenset[str]:
        found = _below(node)
        key = id(found), wanted
        if key not in self._known:
            places = [n for n, one in enumerate(_columns(found)) if one.expression_id == wanted]
            if not places:
                raise _Unknown
            self._known[key] = self._of_place(found, places[0])
        return self._known[key]

    def _of_expression(self, found: Node, node: Node) -> frozenset[str]:
        """Return the texts of an expression of a node."""
        while found.name in _ONE_VALUE and found.children:
            found = found.children[0]
        match found.name:
            case "Literal":
                return _of_literal(found)
            case "AttributeReference" if len(node.children) == 1:
                return self._of_id(node.children[0], found.expression_id)
            case "CaseWhen":
                # A condition and its value, in turns, and at the end the value of ``otherwise``.
                pairs, rest = divmod(len(found.children), 2)
                values = [*found.children[1 : 2 * pairs : 2], *found.children[-1:][:rest]]
            case "If":
                values = [*found.children[1:]]
            case "Coalesce":
                values = [*found.children]
            case _:
                raise _Unknown
        return self._any(self._of_expression(value, node) for value in values)

    def _any(self, found: Iterable[frozenset[str]]) -> frozenset[str]:
        texts = frozenset[str]().union(*found)
        if len(texts) > MOST:
            raise _Unknown
        return texts


def _below(node: Node) -> Node:
    """Return the first node, from this one down, with columns of its own."""
    while node.name in _PASSES_COLUMNS and len(node.children) == 1:
        node = node.children[0]
    return node


def _columns(node: Node) -> tuple[Node, ...]:
    """Return the columns of a node; a union has the names and ids of its first input."""
    while node.name == "Union" and node.children:
        node = _below(node.children[0])
    return node.expressions(_LISTS[node.name]) if node.name in _LISTS else ()


def _of_literal(literal: Node) -> frozenset[str]:
    value = literal.fields.get("value")
    if value is None:
        return frozenset()  # Kafka's connector fails on a row without a topic.
    if isinstance(value, str) and literal.fields.get("dataType", "string") == "string":
        return frozenset({value})
    raise _Unknown
