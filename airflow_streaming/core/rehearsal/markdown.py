"""A rehearsal as Markdown, for the person who approves an upgrade."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.markdown import visible
from airflow_streaming.core.rehearsal.rehearsed import Pace, Rehearsed, RehearsedQuery

_DECISIONS: Final = {
    GateDecision.ALLOWED: "went well",
    GateDecision.ALLOWED_WITH_CONSEQUENCE: "went well, with something to know",
    GateDecision.UNKNOWN: "does not prove it",
    GateDecision.NOT_ALLOWED: "failed",
}
_MOST_SHOWN: Final = 8
"""Columns of a sample that fit a page."""


def as_markdown(rehearsed: Rehearsed, *, level: int = 2) -> str:
    """
    Return a rehearsal as Markdown: how it went, what was found, then every query.

    :param level: Level of its heading.
    """
    lines = [
        f"{'#' * level} The rehearsal {_DECISIONS[rehearsed.decision]}",
        "",
        _told(rehearsed),
        "",
    ]
    for finding in rehearsed.findings:
        lines.append(f"- **{finding.severity.value.replace('_', ' ')}** {_text(finding.message)}")
        if finding.old or finding.new:
            lines.append(f"  {_values(finding)}")
        if finding.remedy:
            lines.append(f"  {_text(finding.remedy)}")
    if rehearsed.queries:
        lines += ["", *_table(rehearsed.queries)]
    for query in rehearsed.queries:
        lines += _details(query, level + 1)
    if rehearsed.leftovers:
        lines += ["", f"Left behind, remove it by hand: `{_code(rehearsed.leftovers)}`."]
    return "\n".join(lines) + "\n"


def summary(query: RehearsedQuery) -> str:
    """Return what a query did, in a line."""
    if not query.started:
        return query.ending.value.replace("_", " ")
    batches = f"{query.batches} batch" + ("" if query.batches == 1 else "es")
    again = ", the first again" if query.replayed else ""
    return f"{batches}{again}, {query.ending.value.replace('_', ' ')}"


def pace_text(pace: Pace | None) -> str:
    """Return a pace in words, e.g. ``120 rows/s, 480 ms a batch``."""
    if pace is None:
        return "-"
    rate = "" if pace.rows_per_second is None else f"{pace.rows_per_second:,.0f} rows/s, "
    return f"{rate}{pace.duration_ms:,.0f} ms a batch"


def _told(rehearsed: Rehearsed) -> str:
    application = f"`{_code(rehearsed.application)}`"
    if not rehearsed.spark:
        return f"{application} did not get as far as a Spark session."
    return (
        f"{application} was run on Spark {rehearsed.spark} against {rehearsed.subject}, in "
        f"{rehearsed.seconds:.0f} s. Nothing of the stream was touched."
    )


def _values(finding: GateFinding) -> str:
    told = {"now": finding.old, "then": finding.new}
    shown = ", ".join(f"{word} `{_code(text)}`" for word, text in told.items() if text)
    return f"{shown[:1].upper()}{shown[1:]}."


def _table(queries: Sequence[RehearsedQuery]) -> Iterator[str]:
    yield "| query | batches | rows in | rows out | dropped | state rows | pace | running version |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |"
    for query in queries:
        cells = (
            _cell(query.query or "(unnamed)"),
            summary(query),
            f"{query.input_rows:,}",
            f"{query.output_rows:,}",
            _number(query.dropped_rows),
            _number(query.state_rows),
            pace_text(query.pace),
            pace_text(query.live),
        )
        yield f"| {' | '.join(cells)} |"
    if any(query.live for query in queries):
        yield ""
        yield (
            "The rehearsal ran alone on a small Spark of one host; compare its pace with that of "
            "the running version only where that has no more."
        )


def _details(query: RehearsedQuery, level: int) -> Iterator[str]:
    if not (query.columns or query.notes or query.observed):
        return
    yield ""
    yield f"{'#' * level} {_text(query.query or 'The query')}"
    yield ""
    if query.columns:
        columns = ", ".join(f"{column.name} {column.type}" for column in query.columns)
        yield f"Output: `{_code(columns)}`"
    if query.columns and (query.observed or query.notes):
        yield ""
    for name, value in query.observed.items():
        yield f"- observed {_text(name)}: {value:,.6g}"
    for note in query.notes:
        yield f"- {_text(note)}"
    yield from _sample(query)


def _sample(query: RehearsedQuery) -> Iterator[str]:
    if not query.sample:
        return
    # The columns tell the order; a record that has travelled keeps none.
    ordered = [column.name for column in query.columns] or list(query.sample[0])
    names = [name for name in ordered if name in query.sample[0]][:_MOST_SHOWN]
    yield ""
    yield f"| {' | '.join(map(_cell, names))} |"
    yield f"| {' | '.join('---' for _ in names)} |"
    for row in query.sample:
        yield f"| {' | '.join(_cell(row.get(name, '')) for name in names)} |"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|") or " "


def _code(text: str) -> str:
    return " ".join(visible(text).replace("`", "'").split())


def _text(text: str) -> str:
    # What a script says may hold anything; a page that a person approves by shows it as text.
    flat = " ".join(visible(text).split())
    return "".join(f"\\{c}" if c in "\\`*_<>[]#" else c for c in flat)
