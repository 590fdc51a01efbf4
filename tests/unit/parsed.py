"""The syntax trees of modules, which many guards look at."""

from __future__ import annotations

import ast
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    """Return the tree of a module's text, for looking only: all who ask are given the same."""
    return ast.parse(source)


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return all nodes of a module's tree in the order of ``ast.walk``, which costs more than most looks at them."""
    return tuple(ast.walk(tree))
