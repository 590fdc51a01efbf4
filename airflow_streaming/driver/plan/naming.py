"""
The names of a plan's columns.

A source column whose name occurs in several sources gets the number of its source. A computed column is written
as its expression, back to the next stateful operator below, because the state above was made from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from airflow_streaming.driver.plan.expressions import (
    PLAIN,
    Wording,
    plain_name,
    tree_of,
    unnamed,
)
from airflow_streaming.driver.plan.nodes import Node, Origin, expression_in
from airflow_streaming.model.plan.tree import ColumnRef, Tree

_STATEFUL: Final = frozenset({"Aggregate", "FlatMapGroupsInPandasWithState", "MapGroupsWithState"})


class Names:
    """
    The names of one plan's columns.

    :param tree: The whole plan.
    :param wording: How its expressions are written down; the naming is its own.
    """

    def __init__(self, tree: Node, wording: Wording = PLAIN) -> None:
        self._own = dict(_of_sources(tree))
        self.wording = replace(wording, naming=self.name)

    def name(self, attribute: Node) -> Tree:
        return self._own.get(attribute.expression_id) or ColumnRef(plain_name(attribute))

    def tree(self, expression: Node) -> Tree:
        return tree_of(expression, self.wording)

    def key(self, expression: Node) -> Tree:
        """Return a tree in which columns of one name in one source differ."""
        return tree_of(expression, replace(self.wording, naming=_numbered))

    def computed(self, expression: Node, below: Node) -> Tree:
        """
        Return an expression with the columns' definitions in the place of their names.

        :param below: The plan that gives the columns.
        """
        known = definitions(below)
        done: dict[str, Tree] = {}

        def naming(attribute: Node) -> Tree:
            key = attribute.expression_id
            if key not in known:
                return self.name(attribute)
            if key not in done:
                done[key] = self.name(attribute)  # should a definition ever hold itself
                done[key] = tree_of(unnamed(known[key]), wording)
            return done[key]

        wording = replace(self.wording, naming=naming)
        return tree_of(expression, wording)


def _numbered(column: Node) -> Tree:
    return ColumnRef(f"{plain_name(column)}#{column.expression_id}")


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


def _expanded(node: Node) -> Mapping[str, Node]:
    # A sliding window: every row is taken once for each window it is in.
    rows = node.fields.get("projections")
    first = rows[0] if isinstance(rows, list) and rows else []
    made = (expression_in(one, Origin(node, "projections", (0, i))) for i, one in enumerate(first))
    row = tuple(one for one in made if one is not None)
    output = node.expressions("output")
    if len(row) != len(output):
        return {}
    pairs = zip(output, row, strict=True)
    return {to.expression_id: by for to, by in pairs if by.name != "AttributeReference"}


def _of_sources(tree: Node) -> Iterator[tuple[str, ColumnRef]]:
    """Yield columns of one name in several branches, with the number of the leaf each comes from."""
    columns: dict[str, tuple[str, int]] = {}
    for node, leaves in reversed([*_leaves_below(tree)]):
        if len(leaves) == 1:
            (place,) = leaves
            for column in _made_by(node):
                columns[column.expression_id] = (plain_name(column), place)
    places: dict[str, set[int]] = {}
    for name, place in columns.values():
        places.setdefault(name, set()).add(place)
    for key, (name, place) in columns.items():
        if len(places[name]) > 1:
            yield key, ColumnRef(name, place)


def _leaves_below(tree: Node) -> Iterator[tuple[Node, frozenset[int]]]:
    nodes = [*tree.walk()]
    leaves = [node for node in nodes if not node.children and node.name != "CTERelationRef"]
    known: dict[int, frozenset[int]] = {
        id(leaf): frozenset({place}) for place, leaf in enumerate(leaves)
    }
    for node in reversed(nodes):
        if node.children:
            below = [known.get(id(child), frozenset()) for child in node.children]
            known[id(node)] = below[0] if len(below) == 1 else frozenset().union(*below)
    for node in nodes:
        yield node, known.get(id(node), frozenset())


def _made_by(node: Node) -> Iterator[Node]:
    if not node.children:
        yield from node.expressions("output")
        return
    for name in ("projectList", "aggregateExpressions"):
        yield from (one for one in node.expressions(name) if one.name == "Alias")
    for name in ("generatorOutput", "outputAttrs"):
        yield from node.expressions(name)
