"""
Expressions of a plan as trees: columns, and operations on them.

A tree is equal to another one by its digest, which covers literal types and options. Trees are shared, bounded
in size by their writer, and travel as JSON: a column is a text, an operation an object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Self, TypeGuard

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.codec import OwnForm, shown

ALIAS: Final = "alias"
CAST: Final = "cast"
CUT: Final = "cut"
"""Stands for an expression too large to be recorded; it may name any column."""
COLUMN_MARK: Final = "#column"
"""Follows the name of a column in an option that Spark shows as text alone; such a text may name any column."""
FIELD: Final = "field"
LITERAL: Final = "literal"
MAX_DEPTH: Final = 150
"""A deeper tree is cut by its writer and refused by its reader, because both call themselves."""


class Tree(OwnForm):
    """
    A column or an operation; ``args`` of a column are empty.

    :ivar weight: About the number of characters of its text.
    :ivar depth: Operations on the longest way to a leaf.
    """

    __slots__ = ("args", "depth", "digest", "weight")
    args: tuple[Tree, ...]
    depth: int
    digest: str
    weight: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def walk(self) -> Iterator[Tree]:
        """Return this tree and all in it, from the top down and from left to right."""
        waiting = [self]
        while waiting:
            tree = waiting.pop()
            yield tree
            waiting.extend(reversed(tree.args))

    @classmethod
    def from_json(cls, value: Any, where: str, depth: int = MAX_DEPTH) -> Tree:
        """
        Build a tree from its JSON form.

        :raises RecordError: another form, or too deep.
        """
        if isinstance(value, str):
            return ColumnRef(value)
        if not isinstance(value, Mapping) or depth < 0:
            raise RecordError(f"{where}: expected an expression, found {shown(value)}.")
        if "column" in value:
            source = value.get("source")
            return ColumnRef(str(value["column"]), source if type(source) is int else None)
        args, options = value.get("args", []), value.get("options", {})
        if not isinstance(args, list) or not isinstance(options, Mapping):
            raise RecordError(f"{where}: malformed arguments of an expression.")
        return Expr(
            str(value.get("op", "?")),
            tuple(Tree.from_json(one, where, depth - 1) for one in args),
            type=str(value.get("type", "")),
            options={str(key): str(text) for key, text in options.items()},
        )


class ColumnRef(Tree):
    """
    A column by its name.

    :param source: Number of its source where several sources have the name.
    """

    __slots__ = ("name", "source")

    def __init__(self, name: str, source: int | None = None) -> None:
        self.name, self.source = name, source
        self.args, self.depth, self.weight = (), 0, len(name)
        self.digest = f"{name}@{'' if source is None else source}"

    def __repr__(self) -> str:
        return f"ColumnRef({self.digest!r})"

    def to_json(self) -> Any:
        return self.name if self.source is None else {"column": self.name, "source": self.source}

    def may_be(self, other: ColumnRef) -> bool:
        """Tell whether both can be one column; without a number, a name is of any source."""
        return self.name == other.name and (
            None in (self.source, other.source) or self.source == other.source
        )


class Expr(Tree):
    """
    An operation.

    :param op: Its name in small letters, e.g. ``sum``, ``+``, ``literal``; of a node of the plan Spark's name.
    :param type: Of a literal, a cast and a Python function, the type of the value.
    :param options: Everything else that the value depends on.
    """

    __slots__ = ("op", "options", "type")

    def __init__(
        self,
        op: str,
        args: Iterable[Tree] = (),
        *,
        type: str = "",
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.op, self.args, self.type, self.options = op, tuple(args), type, options or {}
        own = [op, type, sorted(self.options.items()), [one.digest for one in self.args]]
        # A space before the digest: no name of a column makes the digest of an operation.
        self.digest = f" {hashlib.sha256(json.dumps(own).encode()).hexdigest()}"
        self.depth = 1 + max((one.depth for one in self.args), default=0)
        self.weight = (
            len(op)
            + len(type)
            + sum(len(key) + len(text) + 2 for key, text in self.options.items())
            + sum(one.weight + 2 for one in self.args)
        )

    def __repr__(self) -> str:
        return f"Expr({self.op!r}, {self.args!r}, type={self.type!r}, options={self.options!r})"

    @property
    def hides_columns(self) -> bool:
        """Tell whether it may use columns that are not in its arguments."""
        texts = () if self.op == LITERAL else self.options.values()
        return self.op == CUT or any(COLUMN_MARK in text for text in texts)

    def to_json(self) -> Any:
        found: dict[str, Any] = {"op": self.op}
        if self.args:
            found["args"] = [one.to_json() for one in self.args]
        if self.type:
            found["type"] = self.type
        if self.options:
            found["options"] = dict(self.options)
        return found

    def with_args(self, args: Iterable[Tree]) -> Self:
        return type(self)(self.op, args, type=self.type, options=self.options)


def literal(value: str | None, type_: str) -> Expr:
    """Return a literal; ``None`` for NULL."""
    return Expr(LITERAL, type=type_, options={} if value is None else {"value": value})


def is_op(tree: Tree | None, *ops: str) -> TypeGuard[Expr]:
    return isinstance(tree, Expr) and tree.op in ops


def columns_in(trees: Iterable[Tree]) -> list[ColumnRef] | None:
    """Return the columns in trees, each once, in their order; ``None`` where a tree is not whole."""
    found: dict[ColumnRef, None] = {}
    for tree in trees:
        for one in tree.walk():
            if isinstance(one, ColumnRef):
                found[one] = None
            elif isinstance(one, Expr) and one.hides_columns:
                return None
    return [*found]


def used_in(trees: Iterable[Tree], names: Iterable[ColumnRef]) -> set[ColumnRef] | None:
    """Return the given columns that trees use; ``None`` where a tree is cut."""
    columns = columns_in(trees)
    if columns is None:
        return None
    by_name: dict[str, list[ColumnRef]] = {}
    for column in columns:
        by_name.setdefault(column.name, []).append(column)
    return {name for name in names if any(name.may_be(one) for one in by_name.get(name.name, ()))}


def name_of(item: Tree) -> ColumnRef | None:
    """Return the column that a projection makes of an expression."""
    if isinstance(item, ColumnRef):
        return item
    return (
        ColumnRef(item.options["name"]) if is_op(item, ALIAS) and "name" in item.options else None
    )


def way_of(item: Tree) -> Tree:
    """Return the expression of a projection's column, without its name but with its metadata."""
    if not is_op(item, ALIAS) or len(item.args) != 1:
        return item
    more = {key: text for key, text in item.options.items() if key != "name"}
    return Expr(ALIAS, item.args, options=more) if more else item.args[0]


def items_of(items: Iterable[Tree]) -> dict[ColumnRef, Tree] | None:
    """Return each column's expression in a projection, in order; ``None`` if unknown or ambiguous."""
    found: dict[ColumnRef, Tree] = {}
    for item in items:
        name = name_of(item)
        if name is None or name in found:
            return None
        found[name] = way_of(item)
    return found or None


def conjuncts(condition: Tree) -> list[Tree]:
    """Return the conditions of a filter that must all hold."""
    if not is_op(condition, "AND"):
        return [condition]
    return [one for part in condition.args for one in conjuncts(part)]


def replaced(tree: Tree, other: Callable[[Tree], Tree | None]) -> Tree:
    """
    Return a tree with other trees in it.

    :param other: Returns what replaces a tree; ``None`` to look inside.
    """
    found = other(tree)
    if found is not None:
        return found
    if not isinstance(tree, Expr) or not tree.args:
        return tree
    args = tuple(replaced(one, other) for one in tree.args)
    return tree if args == tree.args else tree.with_args(args)


def with_texts(tree: Tree, change: Callable[[str], str]) -> Tree:
    """Return a tree with each text in it changed: names, values of literals and options."""
    if isinstance(tree, ColumnRef):
        return ColumnRef(change(tree.name), tree.source)
    assert isinstance(tree, Expr)  # noqa: S101 - no other trees exist
    return Expr(
        tree.op,
        [with_texts(one, change) for one in tree.args],
        type=tree.type,
        options={key: change(text) for key, text in tree.options.items()},
    )
