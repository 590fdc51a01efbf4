"""
Judge a rehearsal: from its driver's events to the runs of the queries, and to findings.

A failed query is a reason against the upgrade. A query that ran no batch, because there was no
input, gives an unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from airflow_streaming.gates.rehearsal import Pace, Rehearsed, RehearsedQuery, findings_of
from airflow_streaming.model.jobs.drill import INPUT_GONE, DrilledQuery
from airflow_streaming.model.jobs.rehearsal import Ending, RehearsalEvent, RehearsalOrder, Seen
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.spark.failures import presentable
from airflow_streaming.model.spark.plan import QueryPlan

LEFT_OUT: Final = "The script's function for {} was not called; its effects are not rehearsed."


def judge_rehearsal(
    order: RehearsalOrder,
    events: Sequence[RehearsalEvent],
    *,
    subject: str,
    seconds: float,
    failure: str = "",
    is_late: bool = False,
    in_our_code: bool = False,
    live: Mapping[str, Pace] | None = None,
    plans: Sequence[QueryPlan] = (),
) -> Rehearsed:
    """
    Summarize the events of a rehearsal.

    :param subject: The checkpoints used, in words.
    :param seconds: Duration of the whole rehearsal.
    :param failure: Why the driver ended without an own report, a sentence; ``is_late`` if it was
        stopped for its time, ``in_our_code`` if an error of the rehearsal itself ended it.
    :param live: The speed of each query of the running deployment.
    :param plans: Its plans, for the columns at its sinks.
    """
    new = [
        DrilledQuery(folder=event.query, checkpoint="", copy="", batch=-1)
        for event in events
        if event.seen is Seen.NEW_QUERY
    ]
    queries = tuple(
        _query(query, [e for e in events if e.query == query.folder], (live or {}))
        for query in (*order.queries, *new)
    )
    findings = findings_of(
        queries, events, plans, failure=failure, is_late=is_late, in_our_code=in_our_code
    )
    return Rehearsed(
        application=order.application,
        spark=next((event.text for event in events if event.seen is Seen.SPARK), ""),
        subject=subject,
        seconds=round(seconds, 1),
        queries=queries,
        findings=findings,
    )


def pace_of(batches: Sequence[BatchProgress]) -> Pace | None:
    """Return the pace of batches, those without input left out; ``None`` when none is left."""
    read = [batch for batch in batches if batch.input_rows > 0]
    if not read:
        return None
    rates = [rate for b in read if (rate := b.processed_rows_per_second) is not None]
    return Pace(
        batches=len(read),
        input_rows=median(batch.input_rows for batch in read),
        rows_per_second=round(median(rates), 1) if rates else None,
        duration_ms=median(batch.duration_ms for batch in read),
    )


def _query(
    query: DrilledQuery, events: Sequence[RehearsalEvent], live: Mapping[str, Pace]
) -> RehearsedQuery:
    batches = [event for event in events if event.seen is Seen.BATCH]
    figures = [event.figures for event in batches if event.figures is not None]
    numbers = [event.batch for event in batches if event.batch is not None]
    failed = next((event for event in events if event.seen is Seen.FAILED), None)
    ended = next((event for event in events if event.seen is Seen.ENDED), None)
    started = next((event for event in events if event.seen is Seen.STARTED), None)
    dropped = [f.dropped_rows for f in figures if f.dropped_rows is not None]
    state = [f.state_rows for f in figures if f.state_rows is not None]
    is_new = query.batch < 0
    return RehearsedQuery(
        query=query.folder,
        ending=_ending(failed, ended, started),
        is_new=is_new,
        pinned=None if is_new else query.batch,
        started=started is not None,
        batches=len(numbers),
        first_batch=min(numbers, default=None),
        last_batch=max(numbers, default=None),
        replayed=not is_new and bool(numbers) and min(numbers) <= query.batch,
        plan_reads=query.runs is not None and query.has_input,
        has_state=bool(state),
        state_rows=state[-1] if state else None,
        input_rows=sum(f.input_rows for f in figures),
        first_rows=figures[0].input_rows if figures else None,
        output_rows=sum(event.rows or 0 for event in batches),
        dropped_rows=sum(dropped) if dropped else None,
        pace=pace_of(figures),
        live=live.get(query.folder) or _only(live, query),
        columns=() if started is None else started.columns,
        sample=tuple(row for event in events for row in event.sample),
        observed=next((f.observed for f in reversed(figures) if f.observed), {}),
        error="" if failed is None else presentable(failed.text),
        notes=_notes(query, events, failed),
    )


def _ending(
    failed: RehearsalEvent | None, ended: RehearsalEvent | None, started: RehearsalEvent | None
) -> Ending:
    if failed is not None:
        return Ending.FAILED
    if ended is not None and ended.ending is not None:
        return ended.ending
    # The driver was ended while the query ran.
    return Ending.NOT_STARTED if started is None else Ending.OUT_OF_TIME


def _only(live: Mapping[str, Pace], query: DrilledQuery) -> Pace | None:
    # A single checkpoint has no name, and neither has anything else to be compared with.
    return next(iter(live.values())) if len(live) == 1 and not query.folder else None


def _notes(
    query: DrilledQuery, events: Sequence[RehearsalEvent], failed: RehearsalEvent | None
) -> tuple[str, ...]:
    notes = [LEFT_OUT.format(event.text) for event in events if event.seen is Seen.NOT_CALLED]
    if query.run_note:
        notes.append(f"No batch was replayed: {query.run_note}")
    if failed is not None and failed.subject == INPUT_GONE:
        notes.append("Input that it needed is gone, which proves nothing against the new version.")
    return tuple(notes)
