"""
A report as a value: its content, without a format.

Every report of this product is a function that returns a :class:`Report`; ``reports.markdown`` and
``reports.terminal`` turn any of them into text. So a report is written once, and a value that a
user, a script or a store wrote can be markup in none of its forms.

Words are a string or a sequence of strings and spans. A string is a sentence of ours, in which
pairs of backticks are code and all else is text; :func:`code` and :func:`value` hold text that was
read elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

_DEEPEST: Final = 6


class Mark(StrEnum):
    """The format of a span."""

    CODE = "code"
    STRONG = "strong"
    VALUE = "value"
    """Text that was read elsewhere: backticks in it are text."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a line that is more than a sentence of ours."""

    text: str
    mark: Mark


Words: TypeAlias = str | Span | tuple[str | Span, ...]


def code(text: str) -> Span:
    """Return a value as inline code."""
    return Span(text, Mark.CODE)


def strong(text: str) -> Span:
    """Return words of ours that stand out."""
    return Span(text, Mark.STRONG)


def value(text: str) -> Span:
    return Span(text, Mark.VALUE)


def spans(words: Words) -> tuple[str | Span, ...]:
    """Return the parts of some words."""
    return words if isinstance(words, tuple) else (words,)


def joined(several: Iterable[Words], separator: str = ", ") -> tuple[str | Span, ...]:
    """Return words with a separator between them."""
    found: list[str | Span] = []
    for words in several:
        found += [separator, *spans(words)] if found else spans(words)
    return tuple(found)


class Tone(StrEnum):
    """How grave something is; a terminal colors it."""

    NEUTRAL = "neutral"
    GOOD = "good"
    WARNING = "warning"
    UNKNOWN = "unknown"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    The answer of a report, in its first line.

    :param subject: Its subject; empty where the heading names it.
    :param word: The answer in one or two words.
    :param reason: Its reason; empty for none.
    """

    word: str
    tone: Tone
    subject: Words = ""
    reason: Words = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """
    The title of what follows.

    :param level: 1 to 6; a report begins with 2.
    """

    words: Words
    level: int = 3


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph."""

    words: Words


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list."""

    items: tuple[Words, ...]
    is_numbered: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Names, each with its value."""

    rows: tuple[tuple[Words, Words], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """
    A column of a table.

    :param is_number: Aligned at its right.
    """

    title: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """
    A table; an empty cell is a dash.

    :param rows: As many cells as there are columns.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Words, ...], ...]

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"A row has {len(wrong[0])} cells for {len(self.columns)} columns.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    A finding.

    :param label: Its gravity, in a word or two.
    :param message: The finding in a sentence.
    :param rule: Name of its rule or code.
    :param subject: Its place, such as a query or a file.
    :param details: Names, each with its words: values seen, evidence, next steps.
    """

    label: str
    tone: Tone
    message: Words
    rule: str = ""
    subject: Words = ""
    details: tuple[tuple[str, Words], ...] = ()


@dataclass(frozen=True, slots=True)
class Code:
    """Literal lines, such as a command."""

    text: str


Block: TypeAlias = Verdict | Heading | Paragraph | Items | Facts | Table | Finding | Code


@dataclass(frozen=True, slots=True)
class Report:
    """Blocks in their order."""

    blocks: tuple[Block, ...]

    def deeper(self, by: int = 1) -> Report:
        """Return the report as a part of another one: its headings are so many levels lower."""
        return Report(
            tuple(
                replace(block, level=min(_DEEPEST, block.level + by))
                if isinstance(block, Heading)
                else block
                for block in self.blocks
            )
        )


def report_of(blocks: Iterable[Block]) -> Report:
    return Report(tuple(blocks))


def facts(rows: Iterable[tuple[Words, Words]]) -> Facts:
    return Facts(tuple(rows))


def table(titles: Iterable[str], rows: Iterable[Iterable[Words]], numbers: str = "") -> Table:
    """
    Return a table.

    :param titles: Of its columns.
    :param numbers: Titles of the columns that hold numbers, separated by commas.
    """
    right = frozenset(name.strip() for name in numbers.split(",")) if numbers else frozenset()
    columns = tuple(Column(title, is_number=title in right) for title in titles)
    return Table(columns, tuple(tuple(row) for row in rows))


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun, e.g. ``1 batch`` and ``2 batches``."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def byte_text(number: int) -> str:
    """Return a number of bytes, e.g. ``1.4 MB``; a kB has 1000."""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
