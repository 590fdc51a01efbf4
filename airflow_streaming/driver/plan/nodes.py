"""
The tree of a plan as Spark tells it.

Spark tells a whole plan as one JSON text, which costs one question to the JVM: its nodes from the
top down, each with the number of its children. Expressions inside a node are such lists again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_COUNT = "num-children"


class Origin(NamedTuple):
    """
    Where the tree of an expression stands.

    :param of: The node in whose field it is.
    :param places: In a field that holds several.
    """

    of: Node
    field: str
    places: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """
    One node of a plan or of an expression.

    :param name: The class's own name, e.g. ``Aggregate``.
    :param index: Its place among all nodes of its tree.
    :param origin: Where its tree is; ``None`` in the plan's own tree.
    """

    name: str
    index: int
    fields: Mapping[str, Any]
    children: tuple[Node, ...]
    origin: Origin | None = field(default=None, compare=False, repr=False)

    def walk(self) -> Iterator[Node]:
        """Return this node and all below it, from the top down and from left to right."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def expression(self, field: str) -> Node | None:
        """Return the expression in a field, if any."""
        return expression_in(self.fields.get(field), Origin(self, field))

    def expressions(self, field: str) -> tuple[Node, ...]:
        """Return the expressions in a field that holds several."""
        value = self.fields.get(field)
        several = value if isinstance(value, list) else []
        found = (expression_in(one, Origin(self, field, (i,))) for i, one in enumerate(several))
        return tuple(each for each in found if each is not None)

    def all_expressions(self) -> Iterator[Node]:
        """Return every expression in any field."""
        for field_, value in self.fields.items():
            yield from expressions_in(value, Origin(self, field_))

    @property
    def expression_id(self) -> str:
        """Return the number by which other expressions refer to this one; empty without."""
        json_id = self.fields.get("exprId")
        return str(json_id.get("id", "")) if isinstance(json_id, Mapping) else ""

    def object(self, field: str) -> str:
        """Return the name of the Scala object in a field, e.g. ``LeftOuter``."""
        value = self.fields.get(field)
        if not isinstance(value, Mapping):
            return ""
        return short_name(str(value.get("object") or value.get("product-class") or ""))


def read_tree(text: str) -> Node:
    """
    Parse the tree of Spark's JSON.

    :raises ValueError: the text is not a tree.
    """
    found = expression_in(json.loads(text))
    if found is None:
        raise ValueError("Spark's JSON of the plan holds no nodes.")
    return found


def expression_in(value: Any, origin: Origin | None = None) -> Node | None:
    """Return the tree that a list of nodes makes, ``None`` when it is not such a list."""
    if not _is_nodes(value):
        return None
    # From the last node to the first, so that children are there when their parent comes; without
    # recursion, because plans made in a loop are deeper than Python's stack.
    made: list[Node] = []
    for index in range(len(value) - 1, -1, -1):
        fields = value[index]
        children = tuple(made.pop() for _ in range(int(fields[_COUNT])))
        name = short_name(str(fields["class"]))
        made.append(Node(name=name, index=index, fields=fields, children=children, origin=origin))
    return made[-1] if made else None


def short_name(name: str) -> str:
    """Return a class's own name without its package and the mark of a Scala object."""
    return name.rstrip("$").rpartition(".")[2].rpartition("$")[2]


def expressions_in(value: Any, origin: Origin) -> Iterator[Node]:
    """Return every expression in a field of a node, however deep its lists are."""
    found = expression_in(value, origin)
    if found is not None:
        yield found
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from expressions_in(one, origin._replace(places=(*origin.places, place)))


def _is_nodes(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, Mapping) and _COUNT in one and "class" in one for one in value)
    )
