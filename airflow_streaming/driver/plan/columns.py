"""
The columns of a plan: their names, their definitions, and windows in time.

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
from airflow_streaming.model.plan.schema import type_name
from airflow_streaming.model.plan.tree import ColumnRef, Tree, literal

_STATEFUL: Final = frozenset({"Aggregate", "FlatMapGroupsInPandasWithState", "MapGroupsWithState"})
_MICROSECONDS: Final = 1_000_000
_ADDING: Final = frozenset({"TimeAdd", "TimestampAddInterval", "TimestampAdd", "Add"})


class Names:
    """
    The names of one plan's columns.

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


def window_times(tree: Node) -> frozenset[str]:
    """Return the ids of the columns that windows are made of."""
    columns = (
        time_column(one)
        for node in tree.walk()
        if node.name in ("Project", "Expand")
        for one in node.all_expressions()
        if is_window(one)
    )
    return frozenset(column.expression_id for column in columns if column is not None)


def is_window(definition: Node) -> bool:
    struct = unnamed(definition)
    return struct.name == "CreateNamedStruct" and any(
        node.name == "PreciseTimestampConversion" for node in struct.walk()
    )


def window_of(definition: Node) -> tuple[int, int, int] | None:
    """Return length, slide and start of a time window in microseconds, ``None`` of no such one."""
    struct = unnamed(definition)
    remainder = next((node for node in struct.walk() if node.name == "Remainder"), None)
    if remainder is None or len(struct.children) != 4:
        return None
    offset, slide = remainder.children
    start = _number(offset.children[1]) if len(offset.children) == 2 else None
    last = next((node for node in struct.children[3].walk() if node.name == "Add"), None)
    length = None if last is None else _number(last.children[1])
    step = _number(slide)
    if length is None or step is None or start is None:
        return None
    return length, step, start


def gap_of(definition: Node, names: Names) -> Tree | None:
    """Return the gap of a session window; ``None`` for any other window."""
    struct = unnamed(definition)
    if len(struct.children) != 4 or window_of(definition) is not None:
        return None
    for node in struct.children[3].walk():
        if node.name in _ADDING and len(node.children) == 2:
            gap = node.children[1]
            gap = gap.children[0] if gap.name == "Cast" else gap
            return _interval(gap) if gap.name == "Literal" else names.tree(gap)
    return None


def time_column(definition: Node) -> Node | None:
    """Return the column that a window is made of."""
    struct = unnamed(definition)
    converted = (node for node in struct.walk() if node.name == "PreciseTimestampConversion")
    for node in converted:
        for child in node.children:
            if child.name != "PreciseTimestampConversion" and not child.name.startswith("Sub"):
                return child
    return None


def duration(microseconds: int) -> str:
    """Return a duration in words, e.g. ``20 seconds``."""
    if microseconds % _MICROSECONDS:
        return f"{microseconds} microseconds"
    return f"{microseconds // _MICROSECONDS} seconds"


def _numbered(column: Node) -> Tree:
    return ColumnRef(f"{plain_name(column)}#{column.expression_id}")


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


def _number(node: Node) -> int | None:
    value = node.fields.get("value") if node.name == "Literal" else None
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


def _interval(node: Node) -> Tree:
    # The older ones know it as an interval, the newer as its text.
    of = type_name(node.fields.get("dataType"))
    value = str(node.fields.get("value")).removeprefix("interval ")
    return literal(value, "interval" if of == "string" else of)
