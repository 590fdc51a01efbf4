"""
What the columns of a plan are called, so that two that share a name are told apart.

A column of a source whose name other sources have too gets the number of its source. A column that
was computed is written as the expression that computes it, back to the operator below that keeps
state, because that is what the state above was made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.driver.plan.text import plain_name, short_text, text_of
from airflow_streaming.driver.plan.tree import Node


class Names:
    """
    The names of one plan's columns.

    :param tree: The whole plan.
    """

    def __init__(self, tree: Node) -> None:
        self._own = dict(_of_sources(tree))

    def name(self, attribute: Node) -> str:
        """Return what a column is called."""
        return self._own.get(attribute.expression_id) or plain_name(attribute)

    def text(self, expression: Node) -> str:
        """Return an expression with the columns' names."""
        return text_of(expression, self.name)

    @staticmethod
    def key(expression: Node) -> str:
        """Return a text by which expressions of this one plan can be told apart."""
        return text_of(expression, lambda column: f"{plain_name(column)}#{column.expression_id}")

    def computed(self, expression: Node, below: Node) -> str:
        """
        Return an expression with the columns' definitions in the place of their names.

        :param below: The plan that gives the columns.
        """
        known = definitions(below)
        done: dict[str, str] = {}

        def naming(attribute: Node) -> str:
            key = attribute.expression_id
            if key not in known:
                return self.name(attribute)
            if key not in done:
                done[key] = self.name(attribute)  # should a definition ever hold itself
                done[key] = short_text(text_of(unnamed(known[key]), naming))
            return done[key]

        return text_of(expression, naming)


def unnamed(expression: Node) -> Node:
    """Return an expression without the name that it is given."""
    return expression.children[0] if expression.name == "Alias" else expression


def definitions(plan: Node) -> Mapping[str, Node]:
    """Return the expression of every column computed in a plan, down to the next stateful one."""
    found: dict[str, Node] = {}
    node = plan
    while len(node.children) == 1 and node.name not in _STATEFUL:
        for alias in node.expressions("projectList"):
            if alias.name == "Alias":
                found.setdefault(alias.expression_id, alias)
        if node.name == "Expand":
            found.update({key: found.get(key, value) for key, value in _expanded(node).items()})
        node = node.children[0]
    return found


_STATEFUL: Final = frozenset({"Aggregate", "FlatMapGroupsInPandasWithState", "MapGroupsWithState"})


def _expanded(node: Node) -> Mapping[str, Node]:
    # A sliding window: every row is taken once for each window it is in.
    rows = node.fields.get("projections")
    first = rows[0] if isinstance(rows, list) and rows else []
    row = Node(name="row", index=0, fields={"row": first}, children=()).expressions("row")
    output = node.expressions("output")
    if len(row) != len(output):
        return {}
    pairs = zip(output, row, strict=True)
    return {to.expression_id: by for to, by in pairs if by.name != "AttributeReference"}


def _of_sources(tree: Node) -> Iterator[tuple[str, str]]:
    leaves = [node for node in tree.walk() if not node.children and node.name != "CTERelationRef"]
    columns = {
        column.expression_id: (plain_name(column), place)
        for place, leaf in reversed([*enumerate(leaves)])
        for column in leaf.expressions("output")
    }
    shared = Counter(name for name, _ in columns.values())
    for key, (name, place) in columns.items():
        yield key, f"{name}@{place}" if shared[name] > 1 else name
