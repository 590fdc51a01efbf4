"""What green lacks beside blue, a sentence each: what a judgement gives as its reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.cutover.judging.figures import LaneFigures, QueryFigures
from airflow_streaming.core.cutover.terms import ReadyTerms

_LEAST: Final = {"files": 10.0, "bytes": 64.0 * 1024 * 1024}
"""What one batch may leave unread in these units; of records, the largest batch that was seen."""


def trouble(green: LaneFigures, blue: LaneFigures | None) -> Iterator[str]:
    """Tell what is wrong with green and not with blue."""
    if green.trouble:
        yield green.trouble
    for name, reason in green.findings.items():
        # What fires for both is the stream's, and no reason to stay with the old version.
        if blue is None or name not in blue.findings:
            yield reason
    for query in green.queries:
        if query.error is not None:
            yield f"Query {query.name!r} failed: {query.error}"
        elif not query.active:
            yield f"Query {query.name!r} is not active."


def missing(green: LaneFigures, blue: LaneFigures) -> Iterator[str]:
    """Tell which of blue's queries green does not run."""
    names = {query.name for query in green.queries}
    absent = sorted({query.name for query in blue.queries if query.active} - names)
    if absent or not names:
        yield f"Not started yet: {', '.join(absent) or 'any query'}."


def uncaught(
    query: QueryFigures, theirs: QueryFigures | None, terms: ReadyTerms, covers: bool | None
) -> Iterator[str]:
    """
    Tell why a query of green has not caught up with blue's.

    :param covers: Whether its position covers the one of blue; ``None`` where it cannot be told.
    """
    if covers is False:
        yield f"Query {query.name!r} has not read yet what blue had read when green began."
    if (excess := _too_much(query, theirs, terms)) is not None:
        yield excess
    if covers is not None or query.backlog is not None or query.idle:
        return
    # Nothing tells where it is; what is left is that its batches are no larger than blue's.
    usual = theirs.largest if theirs is not None else 0
    if query.newest is None or query.batches < terms.batches:
        yield f"Query {query.name!r} has committed {query.batches} of {terms.batches} batches."
    elif usual and query.newest > terms.backlog_factor * usual:
        yield (
            f"Query {query.name!r} still reads {query.newest} rows in a batch, and the largest of "
            f"blue's has {usual}."
        )


def behind(green: LaneFigures, blue: LaneFigures | None, terms: ReadyTerms) -> Iterator[str]:
    """Tell which queries of green have too much left to read."""
    for query in green.queries:
        theirs = None if blue is None else blue.query(query.name)
        if (excess := _too_much(query, theirs, terms)) is not None:
            yield excess


def _too_much(query: QueryFigures, theirs: QueryFigures | None, terms: ReadyTerms) -> str | None:
    """Say by how much a backlog is too large; ``None`` when it is not, or is not told."""
    mine, other = query.backlog, None if theirs is None else theirs.backlog
    if mine is None:
        return None
    bounds = []
    if other is not None and other.unit == mine.unit:
        usual = max(query.largest, theirs.largest if theirs is not None else 0)
        batch = _LEAST.get(mine.unit, float(usual))
        bounds.append(terms.backlog_factor * other.amount + batch)
    if terms.backlog_records is not None and mine.unit == "records":
        bounds.append(terms.backlog_records)
    if not bounds or mine.amount <= min(bounds):
        return None
    return (
        f"Query {query.name!r} has {mine.amount:.0f} {mine.unit} left to read, and "
        f"{min(bounds):.0f} are allowed."
    )


def unproved(green: LaneFigures, blue: LaneFigures, terms: ReadyTerms) -> Iterator[str]:
    """Tell which queries of green have not committed what the terms ask."""
    for query in green.queries:
        theirs = blue.query(query.name)
        blue_idles = theirs is None or theirs.idle
        if query.batches >= terms.batches or (query.idle and (query.read or blue_idles)):
            continue
        yield f"Query {query.name!r} has committed {query.batches} of {terms.batches} batches."


def figures_told(green: LaneFigures, blue: LaneFigures | None) -> dict[str, str]:
    """Return the figures of green beside those of blue, a line each query."""
    told = {}
    for query in green.queries:
        theirs = None if blue is None else blue.query(query.name)
        left = _left(query)
        beside = f", of blue {rest}" if theirs is not None and (rest := _left(theirs)) else ""
        told[f"query {query.name}"] = (
            f"{query.batches} batches{f', backlog {left}{beside}' if left else ''}"
        )
    return told


def _left(query: QueryFigures) -> str:
    return "" if query.backlog is None else f"{query.backlog.amount:.0f} {query.backlog.unit}"
