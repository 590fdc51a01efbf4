"""The types that a column's type is made of, from its text in a plan."""

from __future__ import annotations

import re
from typing import Final

_NESTED: Final = re.compile(r"(array|map|struct)<(.*)>", re.DOTALL)


def types_in(text: str) -> set[str]:
    """
    Return the names of a type and of all types inside it, without lengths and precisions.

    ``array<struct<a:decimal(10,2)>>`` gives ``array``, ``struct`` and ``decimal``.
    """
    nested = _NESTED.fullmatch(text)
    if nested is None:
        return {text.partition("(")[0]}
    kind, inner = nested.groups()
    if not inner:
        return {kind, text}
    parts = _split(inner)
    if kind == "struct":
        parts = [part.partition(":")[2] for part in parts]
    return {kind}.union(*map(types_in, parts))


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]
