"""The syntax trees of modules, which many guards look at."""

from __future__ import annotations

import ast
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    """Return the tree of a module's text, for looking only: all who ask are given the same."""
    return ast.parse(source)
