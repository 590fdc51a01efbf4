"""
Texts of a plan, taken apart as far as a rule needs: items of a projection, and the names in it.

A column whose name several sources have carries the number of its source, as in ``k@0``. What
cannot be taken apart is compared as a whole, and counts as naming everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_QUOTED: Final = re.compile(r"'[^']*'")
_ALIAS: Final = re.compile(r"(?P<text>.*) AS (?P<name>[^()\[\],]+)", re.DOTALL)
_TAG: Final = re.compile(r"@(\d+)")
_CUT: Final = re.compile(r"\.\.\. \(\d+ characters, digest")
"""How a text goes on that was too long to be kept whole."""


def items_of(text: str) -> dict[str, str] | None:
    """
    Return what a projection computes each column by, in order; ``None`` when it cannot be told.

    ``k, (v + 1) AS w`` gives ``{"k": "k", "w": "(v + 1)"}``.
    """
    if _CUT.search(text):
        return None
    found: dict[str, str] = {}
    for item in _split(text):
        match = _ALIAS.fullmatch(item)
        name, expression = (match["name"], match["text"]) if match else (item, item)
        if name in found:
            return None
        found[name] = expression
    return found or None


def names_in(texts: Iterable[str], names: Iterable[str]) -> set[str] | None:
    """Return those of some columns that texts name; ``None`` when a text is not whole."""
    whole = " ".join(_QUOTED.sub(" ", text) for text in texts)
    if _CUT.search(whole):
        return None
    return {name for name in names if pattern_of(name).search(whole)}


def pattern_of(name: str) -> re.Pattern[str]:
    """Return the pattern that finds a column in a text; without a number it is of any source."""
    base, _, tag = name.rpartition("@") if _TAG.search(name) else (name, "", "")
    numbered = re.escape(f"@{tag}") if tag else r"@\d+"
    return re.compile(rf"(?<![\w@]){re.escape(base)}(?:{numbered})?(?![\w@])")


def tags_in(texts: Iterable[str]) -> list[int]:
    """Return the numbers of sources that texts name, rising."""
    return sorted({int(tag) for text in texts for tag in _TAG.findall(_QUOTED.sub(" ", text))})


def _split(text: str) -> list[str]:
    found, depth, start, quoted = [], 0, 0, False
    for place, letter in enumerate(text):
        if letter == "'":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
    return [item for item in (*found, text[start:].strip()) if item]
