"""
Report -> terminal.

Two forms: plain text, stable and never wrapped, for pipes, files and ``NO_COLOR``; and what ``rich``
shows on a terminal, with colors and tables that fit its width. In both, what would steer the
terminal is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import singledispatch
from typing import TYPE_CHECKING, Final

from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.reports.report import (
    Block,
    Code,
    Facts,
    Finding,
    Heading,
    Items,
    Mark,
    Paragraph,
    Report,
    Span,
    Table,
    Tone,
    Verdict,
    Words,
    spans,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

NOTHING: Final = "-"
"""The text of an empty value's cell."""
_INDENT: Final = "    "
_BELOW: Final = 2
"""Columns by which a finding is indented below its decision."""

_STYLES: Final = {
    Tone.NEUTRAL: "bold",
    Tone.GOOD: "bold green",
    Tone.WARNING: "bold yellow",
    Tone.UNKNOWN: "bold magenta",
    Tone.BAD: "bold red",
}
_MARKS: Final = {Mark.CODE: "cyan", Mark.STRONG: "bold", Mark.VALUE: ""}
_QUOTED: Final = re.compile(r"`([^`]+)`")


def printable(text: str) -> str:
    """Return text on one line, without characters that would steer the terminal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else " " if char.isspace() else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


def masked(text: str) -> str:
    """Return text of a record, a store or a user as ``printable`` does, with its secrets marked."""
    return printable(mask_secrets(text))


def clock(moment: datetime | None) -> str:
    """Return a time as users read it, in UTC."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else NOTHING


def plain(report: Report) -> str:
    """Return a report as plain text: a line for each row and sentence, however long."""
    lines: list[str] = []
    before: Block | None = None
    for block, indent in _indents(report):
        if before is not None and not isinstance(before, Heading):
            lines.append("")
        lines += [f"{' ' * indent}{one}".rstrip() for one in _plain(block)]
        before = block
    return "\n".join(lines)


def _indents(report: Report) -> Iterator[tuple[Block, int]]:
    """Yield each block with its indentation: findings stand below the decision that they explain."""
    is_below = False
    for block in report.blocks:
        if isinstance(block, Verdict | Heading):
            is_below = isinstance(block, Verdict)
        yield block, _BELOW if is_below and isinstance(block, Finding) else 0


def words(told: Words) -> str:
    """Return words as plain text of a line."""
    return "".join(
        masked(part.text) if isinstance(part, Span) else printable(part) for part in spans(told)
    )


def aligned(rows: Iterable[Sequence[str]], gap: int, right: Sequence[bool] = ()) -> list[str]:
    """
    Return rows as lines with aligned columns.

    :param right: Which columns hold numbers; none when empty.
    """
    table = [*rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides = right or [False] * len(widths)
    return [
        (" " * gap)
        .join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, sides, strict=True)
        )
        .rstrip()
        for row in table
    ]


@singledispatch
def _plain(block: Block) -> Iterator[str]:
    raise TypeError(f"A report has no block like {block!r:.80}.")


@_plain.register(Verdict)
def _(block: Verdict) -> Iterator[str]:
    subject = words(block.subject)
    word = printable(block.word.upper())
    yield f"{subject}: {word}" if subject else word
    if reason := words(block.reason):
        yield f"  {reason}"


@_plain.register(Heading)
def _(block: Heading) -> Iterator[str]:
    yield words(block.words)


@_plain.register(Paragraph)
def _(block: Paragraph) -> Iterator[str]:
    yield words(block.words)


@_plain.register(Items)
def _(block: Items) -> Iterator[str]:
    for number, item in enumerate(block.items, start=1):
        yield f"{f'{number}.' if block.is_numbered else ' '} {words(item) or NOTHING}"


@_plain.register(Facts)
def _(block: Facts) -> Iterator[str]:
    yield from aligned([(words(n), words(w) or NOTHING) for n, w in block.rows], gap=3)


@_plain.register(Table)
def _(block: Table) -> Iterator[str]:
    head = tuple(printable(one.title) for one in block.columns)
    rows = [tuple(words(cell) or NOTHING for cell in row) for row in block.rows]
    yield from aligned([head, *rows], gap=2, right=[one.is_number for one in block.columns])


@_plain.register(Finding)
def _(block: Finding) -> Iterator[str]:
    yield "  ".join(filter(None, map(words, (block.label, block.rule, block.subject))))
    yield f"{_INDENT}{words(block.message)}"
    for name, told in block.details:
        yield f"{_INDENT}{printable(name)}: {words(told) or NOTHING}"


@_plain.register(Code)
def _(block: Code) -> Iterator[str]:
    yield from (f"{_INDENT}{printable(one)}" for one in block.text.splitlines())


def rendered(report: Report) -> Iterator[RenderableType]:
    """Yield what ``rich`` prints for a report; nothing in it is read as rich's own markup."""
    before: Block | None = None
    for block, indent in _indents(report):
        if before is not None and not isinstance(before, Heading):
            yield ""
        for one in _rendered(block):
            yield _padded(one, indent) if indent else one
        before = block


def _text(told: Words, style: str = "") -> Text:
    from rich.text import Text  # a plain report does without rich

    shown = Text(style=style)
    for part in spans(told):
        if isinstance(part, Span):
            shown.append(masked(part.text), style=_MARKS[part.mark] or None)
            continue
        for at, piece in enumerate(_QUOTED.split(printable(part))):
            shown.append(piece, style=_MARKS[Mark.CODE] if at % 2 else None)
    return shown


@singledispatch
def _rendered(block: Block) -> Iterator[RenderableType]:
    raise TypeError(f"A report has no block like {block!r:.80}.")


@_rendered.register(Verdict)
def _(block: Verdict) -> Iterator[RenderableType]:
    subject = _text(block.subject, "bold")
    word = _text((Span(block.word.upper(), Mark.VALUE),), _STYLES[block.tone])
    yield subject.append(": ").append_text(word) if subject.plain else word
    if words(block.reason):
        yield from _indented(_text(block.reason), 2)


@_rendered.register(Heading)
def _(block: Heading) -> Iterator[RenderableType]:
    yield _text(block.words, "bold underline")


@_rendered.register(Paragraph)
def _(block: Paragraph) -> Iterator[RenderableType]:
    yield _text(block.words)


@_rendered.register(Items)
def _(block: Items) -> Iterator[RenderableType]:
    marks = [f"{n}." if block.is_numbered else "-" for n, _ in enumerate(block.items, start=1)]
    yield from _grid((mark, item) for mark, item in zip(marks, block.items, strict=True))


@_rendered.register(Facts)
def _(block: Facts) -> Iterator[RenderableType]:
    yield from _grid(block.rows, gap=3)


@_rendered.register(Table)
def _(block: Table) -> Iterator[RenderableType]:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    shown = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in block.columns:
        shown.add_column(
            _text((Span(column.title, Mark.VALUE),)),
            justify="right" if column.is_number else "left",
            overflow="fold",
        )
    for row in block.rows:
        shown.add_row(*(_text(cell if words(cell) else NOTHING) for cell in row))
    yield shown


@_rendered.register(Finding)
def _(block: Finding) -> Iterator[RenderableType]:
    head = _text((Span(block.label, Mark.VALUE),), _STYLES[block.tone])
    for more in (block.rule, block.subject):
        if words(more):
            head.append("  ").append_text(_text(more))
    yield head
    yield from _indented(_text(block.message))
    for name, told in block.details:
        yield from _indented(_text((Span(f"{name}: ", Mark.STRONG), *spans(told or NOTHING))))


@_rendered.register(Code)
def _(block: Code) -> Iterator[RenderableType]:
    for one in block.text.splitlines():
        yield from _indented(_text((Span(one, Mark.CODE),)))


def _indented(text: Text, by: int = len(_INDENT)) -> Iterator[RenderableType]:
    yield _padded(text, by)


def _padded(one: RenderableType, by: int) -> RenderableType:
    from rich.padding import Padding

    return Padding(one, (0, 0, 0, by))


def _grid(rows: Iterable[tuple[Words, Words]], gap: int = 1) -> Iterator[RenderableType]:
    from rich.table import Table as RichTable

    shown = RichTable.grid(padding=(0, gap, 0, 0))
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, told in rows:
        shown.add_row(_text(name), _text(told if words(told) else NOTHING))
    yield shown
