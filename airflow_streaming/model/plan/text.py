"""The text of expressions, for people: findings, reports and logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from airflow_streaming.model.plan.tree import (
    ALIAS,
    CAST,
    CUT,
    FIELD,
    LITERAL,
    ColumnRef,
    Expr,
    Tree,
)

_PLAIN_WORD: Final = re.compile(r"(?!(?:true|false|null|nan|infinity)$)[^\W\d]\w*", re.IGNORECASE)
"""A name that reads as nothing else: no field of a struct, number, literal or operator."""
_SYMBOL: Final = re.compile(r"[^\w\s]+|AND|OR")
_PLAIN_STEPS: Final = frozenset({"Project", "Filter", "Generate"})
_BARE: Final = frozenset({"int", "bigint", "boolean", "double"})
"""Types whose literals are written without them."""


def text_of(tree: Tree) -> str:
    """Return an expression as text, near to SQL."""
    if isinstance(tree, ColumnRef):
        return word(tree.name) if tree.source is None else f"{word(tree.name)}@{tree.source}"
    assert isinstance(tree, Expr)  # noqa: S101 - no other trees exist
    form = _FORMS.get(tree.op)
    if form is not None:
        return form(tree)
    if len(tree.args) == 2 and _SYMBOL.fullmatch(tree.op):
        left, right = map(text_of, tree.args)
        return f"({left} {tree.op} {right}){_details(tree.options)}"
    return _call(tree)


def texts_of(trees: Iterable[Tree]) -> str:
    """Return expressions as one text."""
    return ", ".join(map(text_of, trees))


def step_text(node: Tree) -> str:
    """Return a step of a plan as text: its expressions, or the name of its node with its details."""
    if isinstance(node, Expr) and node.op in _PLAIN_STEPS and node.args:
        return f"{texts_of(node.args)}{_details(node.options)}"
    return text_of(node)


def word(name: str) -> str:
    """Return a name as texts have it: in backquotes where it could be read as something else."""
    return name if _PLAIN_WORD.fullmatch(name) else "`{}`".format(name.replace("`", "``"))


def quote(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))


def _call(tree: Expr) -> str:
    # Nodes of a plan and their details have no brackets where they have nothing in them.
    parts = [*map(text_of, tree.args), *(f"{key}={text}" for key, text in tree.options.items())]
    result = f": {tree.type}" if tree.type else ""
    return f"{tree.op}({', '.join(parts)}){result}" if parts or tree.op.islower() else tree.op


def _details(options: Mapping[str, str], *known: str) -> str:
    details = ", ".join(f"{key}={text}" for key, text in options.items() if key not in known)
    return f"[{details}]" if details else ""


def _literal(tree: Expr) -> str:
    value = tree.options.get("value")
    if value is None:
        return "NULL"
    if tree.type == "string":
        return quote(value)
    return value if tree.type in _BARE else f"{tree.type} {value}"


def _alias(tree: Expr) -> str:
    name = f" AS {word(tree.options['name'])}" if "name" in tree.options else ""
    return f"{texts_of(tree.args)}{_details(tree.options, 'name')}{name}"


def _cast(tree: Expr) -> str:
    return f"cast({texts_of(tree.args)} as {tree.type}){_details(tree.options)}"


def _field(tree: Expr) -> str:
    name, place = tree.options.get("name"), tree.options.get("ordinal")
    more = _details(tree.options, "name", "ordinal")
    return f"{texts_of(tree.args)}.{place if name is None else word(name)}{more}"


def _aggregate(tree: Expr) -> str:
    function, *condition = map(text_of, tree.args)
    if tree.options.get("distinct"):
        function = function.replace("(", "(DISTINCT ", 1)
    where = f" FILTER (WHERE {', '.join(condition)})" if condition else ""
    return f"{function}{where}{_details(tree.options, 'distinct')}"


def _cut(tree: Expr) -> str:
    digest = tree.options.get("digest", "?")
    return f"{tree.options.get('begins', '')}... (digest {digest})"


_FORMS: Final[Mapping[str, Callable[[Expr], str]]] = {
    LITERAL: _literal,
    ALIAS: _alias,
    CAST: _cast,
    FIELD: _field,
    CUT: _cut,
    "aggregate": _aggregate,
    "lambda_variable": lambda tree: tree.options.get("name", "?"),
}
