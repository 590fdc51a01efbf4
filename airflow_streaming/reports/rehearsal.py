"""The report of a rehearsal: its course, its findings, then every query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.rehearsal import Pace, Rehearsed, RehearsedQuery
from airflow_streaming.model.durations import duration_text, number_text
from airflow_streaming.reports.gate import TONES, finding_of
from airflow_streaming.reports.report import (
    Block,
    Heading,
    Items,
    Paragraph,
    Report,
    Verdict,
    Words,
    code,
    counted,
    report_of,
    table,
    value,
)

_DECISIONS: Final = {
    GateDecision.ALLOWED: "passed",
    GateDecision.ALLOWED_WITH_CONSEQUENCE: "passed, with a consequence",
    GateDecision.UNKNOWN: "inconclusive",
    GateDecision.NOT_ALLOWED: "failed",
}
_MOST_SHOWN: Final = 8
"""Columns of a sample that fit a page."""


def rehearsal_report(found: Rehearsed) -> Report:
    return report_of(_blocks(found))


def _blocks(found: Rehearsed) -> Iterator[Block]:
    yield Heading("Rehearsal", 2)
    yield Verdict(
        subject="Result",
        word=_DECISIONS[found.decision],
        tone=TONES[found.decision],
        reason=_summary(found),
    )
    yield from map(finding_of, found.findings)
    if found.queries:
        yield from _table(found.queries)
    for query in found.queries:
        yield from _query(query)
    if found.leftovers:
        yield Paragraph(("Left behind, remove it by hand: ", code(found.leftovers), "."))


def _summary(found: Rehearsed) -> Words:
    if not found.spark:
        return code(found.application), " did not get as far as a Spark session."
    return (
        code(found.application),
        f" ran on Spark {found.spark} against ",
        value(found.subject),
        f", in {duration_text(found.seconds)}. Nothing of the stream was touched.",
    )


def _table(queries: Sequence[RehearsedQuery]) -> Iterator[Block]:
    titles = ("query", "batches", "rows in", "rows out", "dropped", "state rows", "pace")
    rows = ((*_row(query), pace_text(query.live)) for query in queries)
    numbers = "rows in, rows out, dropped, state rows"
    yield table((*titles, "running version"), rows, numbers)
    if any(query.live for query in queries):
        yield Paragraph(
            "The rehearsal ran alone on a small Spark of one host; compare its pace with the "
            "running version's only if that has no more resources."
        )


def _row(query: RehearsedQuery) -> tuple[Words, ...]:
    return (
        value(query.query or "(unnamed)"),
        ended(query),
        f"{query.input_rows:,}",
        f"{query.output_rows:,}",
        _number(query.dropped_rows),
        _number(query.state_rows),
        pace_text(query.pace),
    )


def ended(query: RehearsedQuery) -> str:
    """Return a query's result, in a line."""
    ending = query.ending.value.replace("_", " ")
    if not query.started:
        return ending
    replayed = ", the first again" if query.replayed else ""
    return f"{counted(query.batches, 'batch', 'batches')}{replayed}, {ending}"


def pace_text(pace: Pace | None) -> str:
    """Return a pace in words, e.g. ``120 rows/s, 480 ms a batch``; empty when it is not known."""
    if pace is None:
        return ""
    rate = "" if pace.rows_per_second is None else f"{pace.rows_per_second:,.0f} rows/s, "
    return f"{rate}{pace.duration_ms:,.0f} ms a batch"


def _query(query: RehearsedQuery) -> Iterator[Block]:
    if not (query.columns or query.notes or query.observed):
        return
    yield Heading(("Query ", value(query.query)) if query.query else "The query", 3)
    if query.columns:
        columns = ", ".join(f"{column.name} {column.type}" for column in query.columns)
        yield Paragraph(("Output: ", code(columns)))
    observed: Iterator[Words] = (
        ("observed ", value(name), f": {number_text(number, digits=6)}")
        for name, number in query.observed.items()
    )
    items: tuple[Words, ...] = (*observed, *query.notes)
    if items:
        yield Items(items=items)
    yield from _sample(query)


def _sample(query: RehearsedQuery) -> Iterator[Block]:
    if not query.sample:
        return
    # The columns tell the order; a record that has traveled keeps none.
    ordered = [column.name for column in query.columns] or list(query.sample[0])
    names = [name for name in ordered if name in query.sample[0]][:_MOST_SHOWN]
    yield table(names, ([value(row.get(name, "")) for name in names] for row in query.sample))


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
