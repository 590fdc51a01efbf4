"""The pages that readers of this project see, and the Python in them."""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
_BLOCK: Final = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def pages() -> list[str]:
    """Return every page of the repository, as a path from its root."""
    root = (path.name for path in REPOSITORY.glob("*.md"))
    below = (path for room in ("docs", "dags") for path in REPOSITORY.glob(f"{room}/**/*.md"))
    return sorted({*root, *(path.relative_to(REPOSITORY).as_posix() for path in below)})


@cache
def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Snippet:
    """
    Python that a page shows.

    :param line: Of the page, at which the snippet begins.
    """

    source: str
    line: int


def snippets(page: str) -> list[Snippet]:
    text = text_of(page)
    return [
        Snippet(source=found[1], line=text.count("\n", 0, found.start(1)) + 1)
        for found in _BLOCK.finditer(text)
    ]


def names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a module defines, and those that it uses and does not define."""
    top = symtable.symtable(source, "<page>", "exec")
    defined = {
        one.get_name()
        for one in top.get_symbols()
        if one.is_assigned() or one.is_imported() or one.is_namespace()
    }
    used = {
        one.get_name()
        for table in _tables(top)
        for one in table.get_symbols()
        if one.is_referenced() and (table is top or one.is_global())
    }
    return defined, used - defined


def imported(source: str) -> set[str]:
    """Return the modules that a module imports."""
    nodes = [*ast.walk(ast.parse(source))]
    named = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return named | {
        one.name for node in nodes if isinstance(node, ast.Import) for one in node.names
    }


def _tables(top: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield top
    for below in top.get_children():
        yield from _tables(below)
