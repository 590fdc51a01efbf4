"""Reports as one HTML file, which loads nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from html import escape
from typing import Final

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
    Table,
    Verdict,
    Words,
    spans,
)
from airflow_streaming.reports.terminal import printable

_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;margin:2em auto;max-width:75em;padding:0 1em}"
    "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left;"
    "vertical-align:top}.good{color:#17692e}.bad{color:#b3261e}.warning,.unknown{color:#8a5a00}"
)
_TAGS: Final = {Mark.CODE: "code", Mark.STRONG: "strong", Mark.VALUE: "span"}
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def html(report: Report, title: str) -> str:
    """Return a report as a page of its own."""
    body = "\n".join(line for block in report.blocks for line in _lines(block))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _text(text: str) -> str:
    return escape(printable(text))


def _words(words: Words) -> str:
    return "".join(
        _text(one)
        if isinstance(one, str)
        else f"<{_TAGS[one.mark]}>{_text(one.text)}</{_TAGS[one.mark]}>"
        for one in spans(words)
    )


@singledispatch
def _lines(block: Block) -> Iterator[str]:
    raise TypeError(f"{type(block).__name__} has no form in HTML.")


@_lines.register
def _(block: Verdict) -> Iterator[str]:
    subject = f"{_words(block.subject)}: " if block.subject else ""
    reason = f". {_words(block.reason)}" if block.reason else ""
    yield f'<p>{subject}<strong class="{block.tone}">{_text(block.word)}</strong>{reason}</p>'


@_lines.register
def _(block: Heading) -> Iterator[str]:
    yield f"<h{block.level - 1}>{_words(block.words)}</h{block.level - 1}>"


@_lines.register
def _(block: Paragraph) -> Iterator[str]:
    yield f"<p>{_words(block.words)}</p>"


@_lines.register
def _(block: Items) -> Iterator[str]:
    tag = "ol" if block.is_numbered else "ul"
    yield f"<{tag}>{''.join(f'<li>{_words(one)}</li>' for one in block.items)}</{tag}>"


@_lines.register
def _(block: Facts) -> Iterator[str]:
    rows = (f"<tr><th>{_words(name)}</th><td>{_words(told)}</td></tr>" for name, told in block.rows)
    yield f"<table>{''.join(rows)}</table>"


@_lines.register
def _(block: Table) -> Iterator[str]:
    head = "".join(f"<th>{_text(column.title)}</th>" for column in block.columns)
    rows = ("".join(f"<td>{_words(cell)}</td>" for cell in row) for row in block.rows)
    yield f"<table><tr>{head}</tr>"
    yield from (f"<tr>{row}</tr>" for row in rows)
    yield "</table>"


@_lines.register
def _(block: Finding) -> Iterator[str]:
    subject = f" {_words(block.subject)}:" if block.subject else ""
    yield f'<p><strong class="{block.tone}">{_text(block.label)}</strong>{subject} {_words(block.message)}</p>'
    if block.details:
        yield from _lines(Facts(block.details))


@_lines.register
def _(block: Code) -> Iterator[str]:
    yield f"<pre>{_text(block.text)}</pre>"
