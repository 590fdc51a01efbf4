"""Rename locals by their order, where no code can see their names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from airflow_streaming.driver.code.code_trees import Function, in_order, is_store

NAMES_MATTER: Final = frozenset(
    {"locals", "vars()", "dir()", "eval", "exec", "globals", "_getframe", "currentframe"}
    | {"inspect", "query(@)", "numexpr", "duckdb"}
    | {"f_locals", "__code__", "co_names", "co_varnames", "__doc__", "getdoc", "__annotations__"}
    | {"get_type_hints", "get_annotations", "signature", "getfullargspec", "getsource", "gc"}
    | {"__wrapped__", "__closure__", "marshal", "dis"}
    | {"redirect_stdout", "redirect_stderr", "stdout", "stderr", "addHandler", "assertLogs"}
)
"""Code with one of these names may see details that the normal form omits."""


def rename_locals(node: Function, nodes: Iterable[ast.AST]) -> None:
    """Rename the locals of a function in its nodes."""
    kept = {*kept_names(nodes)}
    if None in kept:
        return
    renamed: dict[str, str] = {}
    for one in in_order(node):
        if isinstance(one, ast.Name) and is_store(one) and one.id not in kept:
            renamed.setdefault(one.id, f"_{len(renamed)}")
        elif isinstance(one, ast.ExceptHandler) and one.name and one.name not in kept:
            renamed.setdefault(one.name, f"_{len(renamed)}")
    if not renamed:
        return
    for one in nodes:
        if isinstance(one, ast.Name):
            one.id = renamed.get(one.id, one.id)
        elif isinstance(one, ast.ExceptHandler) and one.name:
            one.name = renamed.get(one.name, one.name)
        elif isinstance(one, ast.Nonlocal):
            one.names = [renamed.get(name, name) for name in one.names]


def kept_names(nodes: Iterable[ast.AST]) -> Iterator[str | None]:
    """Yield the names that stay; ``None`` where all stay."""
    for one in nodes:
        if isinstance(one, ast.ClassDef | ast.MatchAs | ast.MatchStar | ast.MatchMapping):
            yield None
        elif isinstance(one, ast.arg):
            yield one.arg
        elif isinstance(one, ast.Global):
            yield from one.names
        elif isinstance(one, ast.Nonlocal):
            yield None
        elif isinstance(one, ast.alias):
            yield (one.asname or one.name).partition(".")[0]
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name
