"""Find the attributes and names that code may set while it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from airflow_streaming.driver.code.code_trees import identifiers_in, is_store, nodes_of

_NOT_CHANGED: Final = frozenset(
    {"pyspark", "py4j", "logging", "argparse", "typing", "airflow_streaming"}
)
ANY_NAME: Final = frozenset(
    {"getattr", "vars", "globals", "__dict__", "attrgetter", "methodcaller"}
)
"""Code with one of these names may name any definition."""
_SETTERS: Final = frozenset(
    {"setattr", "delattr", "__setattr__", "__delattr__", "__dict__", "vars", "globals", "locals"}
    | {"locals()", "globals()", "exec", "eval", "patch", "monkeypatch", "MonkeyPatch"}
    | {"__class__", "__globals__", "__code__", "f_globals", "f_locals", "f_back", "ctypes", "gc"}
)
"""Code with one of these names may set any attribute."""


def changes_of_process(tree: ast.Module) -> Iterator[str]:
    """
    Yield the statements of a script that may change a module that it imports.

    They stand anywhere: a call with an unused result, or an attribute or item that is set, at a name that
    an import bound. Spark's modules, logs and prints do not count.
    """
    imported = {
        (one.asname or one.name).partition(".")[0]
        for node in nodes_of(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and (getattr(node, "module", "") or "").partition(".")[0] not in _NOT_CHANGED
        for one in node.names
        if one.name.partition(".")[0] not in _NOT_CHANGED
    }
    for node in nodes_of(tree):
        match node:
            case ast.Expr(value=ast.Call(func=owner)):
                pass
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript() as owner, *_]):
                pass
            case ast.AugAssign(target=ast.Attribute() | ast.Subscript() as owner):
                pass
            case ast.Delete(targets=[ast.Attribute() | ast.Subscript() as owner, *_]):
                pass
            case _:
                continue
        root = _root_of(owner)
        if root in imported or (root == "setattr" and isinstance(node, ast.Expr)):
            yield ast.dump(node)


def changes_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the attributes that code sets or deletes; ``*`` where it may do so by a computed name."""
    nodes = [*nodes]
    if not _SETTERS.isdisjoint(identifiers_in(nodes)):
        yield "*"
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                yield node.attr
            elif node.attr == "__init__" and not isinstance(node.value, ast.Call):
                yield "*"  # ``super().__init__`` is the usual one


def shared_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """
    Yield the names in every place but a look-up: ``table[key]``, ``table.get(key)``, ``key in table``.

    ``*`` stands for any name, where code may compute it.
    """
    nodes = [*nodes]
    if not ANY_NAME.isdisjoint(identifiers_in(nodes)):
        yield "*"
    looked_up = {*_tables_looked_up(nodes)}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (part for part in node.value.split(".") if part.isidentifier())
        elif isinstance(node, ast.ImportFrom):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.Name) and not (is_store(node) or id(node) in looked_up):
            yield node.id


def _root_of(node: ast.AST) -> str:
    while not isinstance(node, ast.Name):
        inner = getattr(node, "value", None) or getattr(node, "func", None)
        if not isinstance(inner, ast.AST):
            return ""
        node = inner
    return node.id


def _tables_looked_up(nodes: Iterable[ast.AST]) -> Iterator[int]:
    for node in nodes:
        match node:
            case (
                ast.Subscript(value=table, ctx=ast.Load()) | ast.Attribute(value=table, attr="get")
            ):
                yield id(table)
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[table]):
                yield id(table)
