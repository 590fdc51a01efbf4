"""
Values in Markdown: text of a user, a script or a store appears literally, never as markup.

Every page is made with these functions, so that no value can end its cell or its code span, or
become a heading, a list, a link or HTML. All of them return one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_SPECIAL: Final = str.maketrans({char: f"\\{char}" for char in "\\`*_~[]<>|#&"})
_BLOCK: Final = re.compile(r"\A(?:(?=[-+=])|\d{1,9}(?=[.)]))")
"""Signs that begin a list, a heading or a rule at the start of a line."""
_TICKS: Final = re.compile(r"`+")
_INDEX: Final = re.compile(r"(?<=\w)\\\[(\d{1,9})\\\](?!\(|:|\\\[)")
"""An index, as in ``sources[0]``. It is not a link, because neither address nor label follows."""
_INNER: Final = re.compile(r"(?<=[^\W_])(?:\\_)+(?=[^\W_])")
"""Underscores between two letters or digits, which never begin or end emphasis."""
_LONGEST: Final = 300
"""Characters of a shortened value; a schema of a hundred columns fills no page."""


def visible(value: str) -> str:
    """Return a text without the characters that steer a terminal or turn writing round."""
    return "".join(char for char in value if char.isprintable() or char.isspace())


def shortened(value: str) -> str:
    """Return a value of bounded length on one line, not escaped."""
    line = _line(value)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def text(value: str) -> str:
    """Return a value as text, wherever in a line it stands."""
    return _BLOCK.sub(r"\g<0>\\", cell(value))


def cell(value: str, nothing: str = "") -> str:
    """
    Return a value as text of a cell.

    :param nothing: The text for an empty value.
    """
    return _escaped(_line(value)) or nothing


def code(value: str, nothing: str = "") -> str:
    """Return a value as inline code, outside of tables."""
    line = _line(value)
    if not line:
        return nothing
    fence = "`" * (1 + max((len(run) for run in _TICKS.findall(line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def code_cell(value: str, nothing: str = "") -> str:
    """Return a value as inline code of a cell, where a bar is escaped in code as well."""
    if "\\|" in value:
        return cell(value)  # as in ``_quoted_in_cell``
    return code(value, nothing).replace("|", "\\|")


def prose(value: str) -> str:
    """Return a sentence of ours, in which pairs of backticks are code and all else is text."""
    return _sentence(value, text, lambda part: f"`{part}`")


def prose_cell(value: str) -> str:
    """Return a sentence of ours as text of a cell."""
    return _sentence(value, cell, _quoted_in_cell)


def _quoted_in_cell(part: str) -> str:
    # Renderers disagree about a backslash before a bar in code.
    return _escaped(part) if "\\|" in part else f"`{part}`".replace("|", "\\|")


def ticks(value: str) -> list[str]:
    """Return the runs of backticks in a line; a fence is longer than each of them."""
    return _TICKS.findall(value)


def _sentence(value: str, plain: Callable[[str], str], quoted: Callable[[str], str]) -> str:
    parts = _line(value).split("`")
    if len(parts) % 2 == 0 or not all(parts[1:-1]):
        return plain(value)
    shown = (quoted(part) if at % 2 else _escaped(part) for at, part in enumerate(parts))
    return _BLOCK.sub(r"\g<0>\\", "".join(shown))


def _escaped(line: str) -> str:
    """Return a line with an escape before each sign that could be markup, and before no other."""
    indexed = _INDEX.sub(r"[\1]", line.translate(_SPECIAL))
    return _INNER.sub(lambda found: found[0].replace("\\", ""), indexed)


def _line(value: str) -> str:
    return " ".join(visible(value).split())
