"""Report -> Markdown; every value passes through ``reports.escape``, the one module that escapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatch
from itertools import filterfalse
from typing import Final, TypeAlias

from airflow_streaming.reports import escape
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
    Verdict,
    Words,
    spans,
)

NOTHING: Final = "—"
"""The text of an empty value's cell."""
_Marks: TypeAlias = tuple[tuple[str, str], ...]
_MARKS: Final[_Marks] = (("-", "."), ("*", ")"))
"""Markers of list items, and separators after numbers."""


def markdown(report: Report) -> str:
    """Return a report as Markdown, with tables as GitHub and Airflow have them."""
    lines: list[str] = []
    marks = _MARKS
    before: Block | None = None
    for block in filterfalse(_is_empty, report.blocks):
        # Lists in a row with the same mark would be one, which only findings are meant to be.
        is_one = isinstance(before, Finding) and isinstance(block, Finding)
        if isinstance(before, Items | Finding) and not is_one:
            marks = marks[::-1]
        lines += [*_lines(block, marks), ""]
        before = block
    return "\n".join(lines).rstrip("\n") + "\n"


def _is_empty(block: Block) -> bool:
    """Tell whether nothing of a block would be seen; its marks alone would be read as others."""
    match block:
        case Heading(words) | Paragraph(words):
            return not line(words)
        case Items(items=items):
            return not items
        case Facts(rows):
            return not rows
        case _:
            return False


def line(words: Words) -> str:
    return _joined(words, escape.text, escape.code, escape.prose)


def cell(words: Words) -> str:
    shown = _joined(words, escape.cell, escape.code_cell, escape.prose_cell)
    return shown or NOTHING


def _joined(
    words: Words,
    text: Callable[[str], str],
    code: Callable[[str], str],
    prose: Callable[[str], str],
) -> str:
    shown = ""
    for part in spans(words):
        told = part.text if isinstance(part, Span) else part
        if isinstance(part, Span) and part.mark is Mark.STRONG:
            piece = f"**{text(told)}**" if text(told) else ""
        elif isinstance(part, Span):
            piece = code(told) if part.mark is Mark.CODE else text(told)
        else:
            piece = prose(told)
        # An end of space is part of a sentence. Two code spans side by side would become one.
        has_gap = told[:1].isspace() or (shown.endswith("`") and piece.startswith("`"))
        shown += f"{' ' if shown and has_gap else ''}{piece}"
        if told[-1:].isspace() and piece:
            shown += " "
    return " ".join(shown.split(" ")).strip()


@singledispatch
def _lines(block: Block, marks: _Marks) -> Iterator[str]:
    raise TypeError(f"A report has no block like {block!r:.80}.")


@_lines.register(Verdict)
def _(block: Verdict, _marks: _Marks) -> Iterator[str]:
    subject = line(block.subject)
    yield (
        f"{subject}: **{escape.text(block.word)}**" if subject else f"**{escape.text(block.word)}**"
    )
    if reason := line(block.reason):
        yield ""
        yield reason


@_lines.register(Heading)
def _(block: Heading, _marks: _Marks) -> Iterator[str]:
    yield f"{'#' * block.level} {line(block.words)}"


@_lines.register(Paragraph)
def _(block: Paragraph, _marks: _Marks) -> Iterator[str]:
    yield line(block.words)


@_lines.register(Items)
def _(block: Items, marks: _Marks) -> Iterator[str]:
    bullet, after = marks[0]
    for number, item in enumerate(block.items, start=1):
        mark = f"{number}{after}" if block.is_numbered else bullet
        yield f"{mark} {line(item) or NOTHING}"


@_lines.register(Facts)
def _(block: Facts, _marks: _Marks) -> Iterator[str]:
    yield "| | |"
    yield "| --- | --- |"
    for name, words in block.rows:
        yield _row(name, words)


@_lines.register(Table)
def _(block: Table, _marks: _Marks) -> Iterator[str]:
    yield f"| {' | '.join(escape.cell(one.title) for one in block.columns)} |"
    yield f"| {' | '.join('---:' if one.is_number else '---' for one in block.columns)} |"
    for row in block.rows:
        yield _row(*row)


def _row(*cells: Words) -> str:
    return f"| {' | '.join(map(cell, cells))} |"


@_lines.register(Finding)
def _(block: Finding, marks: _Marks) -> Iterator[str]:
    subject, rule = line(block.subject), escape.code(block.rule)
    where = f" {subject}" if subject else ""
    by = f" ({rule})" if rule else ""
    bullet, _ = marks[0]
    yield f"{bullet} **{escape.text(block.label)}**{where}: {line(block.message)}{by}"
    for name, words in block.details:
        yield f"    {bullet} {escape.text(name)}: {line(words) or NOTHING}"


@_lines.register(Code)
def _(block: Code, _marks: _Marks) -> Iterator[str]:
    shown = [escape.visible(one) for one in block.text.splitlines()]
    longest = max((len(run) for one in shown for run in escape.ticks(one)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}text"
    yield from shown
    yield fence
