"""
Soak: compares the work of a new deployment with the work of the replaced deployment.

The new deployment is bad at once when its driver ends or hangs, or a query fails, because no task restarts it
during a soak. It is good when every query has committed its batches or has no more input, no new rule
fires, and no backlog is larger than at the launch. At the end of the soak, missing evidence counts against it.
The exception is a source without data: the soak waits to its end for rows. A query without rows proves neither
good nor bad, and a user decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.health_rules import HealthRules, Severity
from airflow_streaming.model.observation import Observation, ProcessState, Verdict, VerdictState
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.status import QueryStatus
from airflow_streaming.supervision.health import judge

_BAD: Final = frozenset({VerdictState.HUNG})
_LEAST: Final = {"files": 10.0, "bytes": 64.0 * 1024 * 1024}
"""A smaller backlog counts as empty; for records the bound is the largest batch."""
QUIET_S: Final = 20.0
"""Seconds without a commit after which a query that has nothing to read counts as idle."""


class SoakResult(StrEnum):
    """Result of a soak."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDED = "undecided"
    UNPROVED = "unproved"
    """The time is over, all is well, and a query has read or written nothing: a user decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakVerdict:
    """
    The result of a soak, and the reason.

    :param figures: The judged figures, by query.
    """

    result: SoakResult
    reason: str
    figures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakBaseline:
    """
    The launch of the new deployment, and the figures of the old deployment.

    :param launched_at: Start of the new driver.
    :param epoch: Number of the new driver's epoch.
    :param firing: Rules that fired before the upgrade, each as ``rule/query``.
    :param wrote: Rows that each query of the old deployment has written lately; unknown ones are missing.
    """

    launched_at: datetime
    epoch: int
    firing: frozenset[str] = frozenset()
    wrote: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakFigures:
    """
    The figures of the new driver.

    :param batches: Progress of its newest batches, over all queries, oldest first.
    :param first: Each query's first batch with a known backlog, for the backlog at the launch.
    """

    seen: Observation | None
    rules: HealthRules
    batches: Sequence[BatchProgress] = ()
    first: Mapping[str, BatchProgress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Unread input of a query, in one unit: ``records``, ``files`` or ``bytes``."""

    unit: str
    amount: float


def judge_soak(
    baseline: SoakBaseline, figures: SoakFigures, terms: SoakTerms, now: datetime
) -> SoakVerdict:
    """Judge a new deployment by its figures so far."""
    seen = figures.seen
    if seen is None or seen.epoch.number != baseline.epoch:
        return _verdict(SoakResult.BAD, f"Epoch {baseline.epoch} is not the newest any more.")
    verdict = judge(seen, figures.rules)
    told = _figures(figures)
    if (bad := _bad(seen, verdict)) is not None:
        return _verdict(SoakResult.BAD, bad, told)
    waits = next(_lacking(baseline, figures, verdict, terms), "")
    # The host of the launch and this host may have different clocks. A deployment is kept only if it has run
    # long enough by the driver's own clock too. The end of the soak may come earlier by the difference of the
    # clocks: an early rollback of a deployment without evidence loses nothing.
    age = age_of(baseline.launched_at, now)
    worked = min(age, _worked_for(seen))
    untried = " ".join(_untried(figures, baseline))
    if not waits and worked >= terms.at_least and not untried:
        return _verdict(SoakResult.GOOD, f"It has worked well for {duration_text(worked)}.", told)
    if not waits and untried and age >= terms.at_most:
        reason = f"After {duration_text(age)} nothing is proved: {untried}"
        return _verdict(SoakResult.UNPROVED, reason, told)
    if waits and age >= terms.at_most:
        reason = f"After {duration_text(age)} it has not proved itself: {waits}"
        return _verdict(SoakResult.BAD, reason, told)
    waits = waits or untried or "It is watched a while longer."
    return _verdict(SoakResult.UNDECIDED, waits, told)


def _worked_for(seen: Observation) -> timedelta:
    # From the first committed batch on, where there is one: a cold Spark takes a minute to it, and
    # until the second it is open whether the backlog shrinks or grows.
    status = seen.status
    if status is None:
        return timedelta(0)
    return status.at - (status.first_progress_at or status.started_at)


def firing(verdict: Verdict) -> frozenset[str]:
    """Return what fires, as a baseline keeps it."""
    return frozenset(f"{finding.rule}/{finding.query}" for finding in verdict.findings)


def backlog_of(batch: BatchProgress) -> Backlog | None:
    """Return the backlog after a batch, ``None`` where no source tells it."""
    for unit in ("records", "files", "bytes"):
        told = [getattr(source, f"backlog_{unit}") for source in batch.sources]
        known = [amount for amount in told if amount is not None]
        if known:
            return Backlog(unit=unit, amount=sum(known))
    return None


def _bad(seen: Observation, verdict: Verdict) -> str | None:
    if verdict.has_ended or verdict.state in _BAD:
        return verdict.reason
    if verdict.severity is not None and verdict.severity is not Severity.ALERT:
        return verdict.reason
    failed = [q for q in (seen.status.queries if seen.status else ()) if q.error is not None]
    return f"Query {failed[0].name!r} failed: {failed[0].error}" if failed else None


def _lacking(
    baseline: SoakBaseline, figures: SoakFigures, verdict: Verdict, terms: SoakTerms
) -> Iterator[str]:
    """Yield the missing evidence, a sentence each."""
    seen = figures.seen
    status = None if seen is None else seen.status
    if seen is None or status is None:
        yield "The driver has not given a sign of life yet."
        return
    # A status that was only read may be an hour old.
    if seen.process.state is not ProcessState.RUNNING and not seen.beating:
        yield "Whether the driver lives cannot be seen from here yet."
    names = {query.name for query in status.queries}
    missing = sorted(set(terms.queries) - names)
    if missing or not names:
        yield f"Not started yet: {', '.join(missing) or 'any query'}."
    for query in status.queries:
        yield from _lacking_of(query, figures, terms)
    for new in sorted(firing(verdict) - baseline.firing):
        yield f"It did not fire before the upgrade: {new}. {verdict.reason}"
    if not verdict.findings and not verdict.is_well:
        yield verdict.reason


def _lacking_of(query: QueryStatus, figures: SoakFigures, terms: SoakTerms) -> Iterator[str]:
    if not query.active:
        yield f"Query {query.name!r} is not active."
    elif query.batches < terms.batches and not _is_idle(query):
        yield f"Query {query.name!r} has committed {query.batches} of {terms.batches} batches."
    rows = [batch for batch in figures.batches if batch.query == query.name]
    newest = [] if query.progress is None else [query.progress]
    launched = [first] if (first := figures.first.get(query.name)) is not None else []
    grown = _grown([*launched, *rows, *newest], terms.backlog_growth)
    if grown is not None:
        yield f"Query {query.name!r} falls behind: {grown}."


def _untried(figures: SoakFigures, baseline: SoakBaseline) -> Iterator[str]:
    """Tell of queries that have read or written nothing, a sentence each; an unknown number is not zero."""
    status = None if figures.seen is None else figures.seen.status
    queries = status.queries if status is not None else ()
    if names := ", ".join(repr(query.name) for query in queries if not query.batches):
        yield f"No input arrived for query {names}, so no batch of it was tried."
    names_now = {query.name for query in queries}
    # A query under a new name replaces one that is gone.
    gone = sum(rows for name, rows in baseline.wrote.items() if name not in names_now)
    for query in queries:
        rows = batches_of(query, figures.batches)
        if not query.batches or not rows:
            continue
        read, wrote = sum(batch.input_rows for batch in rows), written_by(rows)
        before = baseline.wrote.get(query.name, gone)
        if not read and not wrote and not _has_moved(rows):
            yield f"Query {query.name!r} has run {query.batches} batches and read no row."
        elif wrote == 0 and before:
            yield (
                f"Query {query.name!r} has read {read:,} rows and written none; the old deployment "
                f"wrote {before:,}."
            )


def batches_of(query: QueryStatus, batches: Sequence[BatchProgress]) -> list[BatchProgress]:
    """Return the known batches of a query, oldest first; the batch of its status is included."""
    rows = [batch for batch in batches if batch.query == query.name]
    newest = query.progress
    if newest is not None and all(batch.batch_id < newest.batch_id for batch in rows):
        rows.append(newest)
    return rows


def written_by(batches: Sequence[BatchProgress]) -> int | None:
    """Return the rows that batches have written; ``None`` where the sink counts none."""
    known = [batch.output_rows for batch in batches if batch.output_rows is not None]
    return sum(known) if known else None


def _has_moved(rows: Sequence[BatchProgress]) -> bool:
    """Tell whether the end offset of a source has changed; some sources count no rows, and some functions read none."""
    ends = {tuple(source.end_offset for source in batch.sources) for batch in rows}
    return len(ends) > 1


def _is_idle(query: QueryStatus) -> bool:
    # Between two batches of a busy query there is a moment that looks the same.
    quiet = query.committed_ago_s is None or query.committed_ago_s >= QUIET_S
    return quiet and not query.processing and not query.data_available


def _grown(batches: Sequence[BatchProgress], factor: float) -> str | None:
    known = [backlog for batch in batches if (backlog := backlog_of(batch)) is not None]
    if not known or known[0].unit != known[-1].unit:
        return None
    first, last = known[0], known[-1]
    largest = float(max(batch.input_rows for batch in batches))
    bound = factor * max(first.amount, _LEAST.get(first.unit, largest))
    if last.amount <= bound:
        return None
    return (
        f"its backlog has grown from {first.amount:.0f} to {last.amount:.0f} {first.unit}, and "
        f"{bound:.0f} were allowed"
    )


def _figures(figures: SoakFigures) -> dict[str, str]:
    status = None if figures.seen is None else figures.seen.status
    values = {}
    for query in status.queries if status is not None else ():
        rest = None if query.progress is None else backlog_of(query.progress)
        left = "" if rest is None else f", backlog {rest.amount:.0f} {rest.unit}"
        rows = batches_of(query, figures.batches)
        read = sum(batch.input_rows for batch in rows)
        counts = f", {rows_text(read, written_by(rows))}" if rows else ""
        values[query.name] = f"{query.batches} batches{counts}{left}"
    return values


def rows_text(read: int, wrote: int | None) -> str:
    """Return two counts of rows as a text, e.g. ``read 200 rows, wrote 180 rows``."""
    written = "rows written not reported" if wrote is None else f"wrote {wrote:,} rows"
    return f"read {read:,} rows, {written}"


def _verdict(
    result: SoakResult, reason: str, figures: Mapping[str, str] | None = None
) -> SoakVerdict:
    return SoakVerdict(result=result, reason=reason, figures=figures or {})
