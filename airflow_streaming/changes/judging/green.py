"""
Judgments on green: passed, failed or inconclusive.

Passed and failed need proof; every other judgment is inconclusive. A judgment names the event that follows
from it. An inconclusive judgment without an event waits for more evidence, until the deadline of the state.
Measuring errors are counted separately and never become a failure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.changes.judging.lane_figures import LaneFigures, QueryFigures, Since
from airflow_streaming.changes.judging.soak import SoakResult, SoakVerdict, rows_text
from airflow_streaming.model.arguments.terms import ReadyTerms
from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.jobs.comparison import CompareReport, CompareResult
from airflow_streaming.model.records.cutover import Result
from airflow_streaming.model.records.cutover_table import CutoverEvent

_LEAST: Final = {"files": 10.0, "bytes": 64.0 * 1024 * 1024}
"""Backlog that one batch may leave, by unit; for records the bound is the largest batch."""

PATIENCE: Final = 3
"""Times ``well_for`` after which a green that has had nothing to read proves nothing any more."""


def trouble(green: LaneFigures, blue: LaneFigures | None) -> Iterator[str]:
    """Yield the problems that green has and blue has not."""
    if green.trouble:
        yield green.trouble
    for finding, reason in green.findings.items():
        # A rule that fires for both lanes is not a reason to stay with the old version.
        rule, _, name = finding.partition("/")
        theirs = [] if blue is None else [name, *(one.name for one in _beside(name, green, blue))]
        if blue is None or not any(f"{rule}/{query}" in blue.findings for query in theirs):
            yield reason
    for query in green.queries:
        if query.error is not None:
            yield f"Query {query.name!r} failed: {query.error}"
        elif not query.active:
            yield f"Query {query.name!r} is not active."


def _beside(name: str, green: LaneFigures, blue: LaneFigures) -> list[QueryFigures]:
    """Return blue's query of this name, else blue's queries that green lacks: one may have another name in green."""
    theirs = blue.query(name)
    if theirs is not None:
        return [theirs]
    return [query for query in blue.queries if green.query(query.name) is None]


def missing(green: LaneFigures, blue: LaneFigures, expected: Collection[str] = ()) -> Iterator[str]:
    """
    Tell which queries green does not run yet.

    :param expected: The queries of green's version, which can have other names than blue's; default: blue's.
    """
    names = {query.name for query in green.queries}
    wanted = {*expected} or {query.name for query in blue.queries if query.active}
    absent = sorted(wanted - names)
    if absent or not names:
        yield f"Not started yet: {', '.join(absent) or 'any query'}."


def uncaught(
    query: QueryFigures, theirs: QueryFigures | None, terms: ReadyTerms, covers: bool | None
) -> Iterator[str]:
    """
    Tell why a query of green has not caught up with blue's.

    :param covers: Whether its position covers blue's position; ``None`` where that is unknown.
    """
    if covers is False and not _reads_on_with(query, theirs):
        yield f"Query {query.name!r} has not yet read what blue had read when green started."
    if (excess := _too_much(query, theirs, terms)) is not None:
        yield excess
    if covers is not None or query.backlog is not None or query.idle:
        return
    # The position is unknown. The remaining evidence is the size of its batches beside blue's.
    usual = theirs.largest if theirs is not None else 0
    if query.newest is None or query.batches < terms.batches:
        yield f"Query {query.name!r} has committed {query.batches} of {terms.batches} batches."
    elif usual and query.newest > terms.backlog_factor * usual:
        yield (
            f"Query {query.name!r} still reads {query.newest} rows in a batch, and the largest of "
            f"blue's has {usual}."
        )


def _reads_on_with(query: QueryFigures, theirs: QueryFigures | None) -> bool:
    """
    Tell whether green has left no more files than blue, whatever blue had read before.

    Files leave an input: they are archived, or a source removes them once they are read. A green that began
    with an empty checkpoint later than that never reads them, and does not wait for them.
    """
    mine, other = query.backlog, None if theirs is None else theirs.backlog
    if mine is None or mine.unit != "files" or not query.batches:
        return False
    return mine.amount <= (other.amount if other is not None and other.unit == mine.unit else 0)


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
    """Yield the queries of green with fewer committed batches than the terms ask."""
    for query in green.queries:
        theirs = blue.query(query.name)
        blue_idles = theirs is None or theirs.idle
        if query.batches >= terms.batches or (query.idle and (query.read or blue_idles)):
            continue
        yield f"Query {query.name!r} has committed {query.batches} of {terms.batches} batches."


def unwritten(green: LaneFigures, blue: LaneFigures) -> Iterator[str]:
    """
    Tell which queries of green have written no row where blue's have; an unknown number is not zero.

    The batches of both are the newest ones of the running drivers.
    """
    for query in green.queries:
        wrote = [one for one in _beside(query.name, green, blue) if one.wrote]
        if query.wrote == 0 and wrote:
            theirs = " and ".join(
                f"query {one.name!r} of blue has read {one.read:,} and written {one.wrote:,}"
                for one in wrote
            )
            yield (
                f"Query {query.name!r} of green has read {query.read:,} rows and written none; {theirs}."
            )


def figures_told(green: LaneFigures, blue: LaneFigures | None) -> dict[str, str]:
    """Return the figures of green beside blue's, a line for each query."""
    values = {}
    for query in green.queries:
        theirs = None if blue is None else blue.query(query.name)
        left = _left(query)
        beside = f", of blue {rest}" if theirs is not None and (rest := _left(theirs)) else ""
        rows = rows_text(query.read, query.wrote)
        if theirs is not None:
            rows += f" (blue: {rows_text(theirs.read, theirs.wrote)})"
        values[f"query {query.name}"] = (
            f"{query.batches} batches, {rows}{f', backlog {left}{beside}' if left else ''}"
        )
    return values


def _left(query: QueryFigures) -> str:
    return "" if query.backlog is None else f"{query.backlog.amount:.0f} {query.backlog.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgment:
    """
    A result, and the reason.

    :param figures: The judged figures; they become facts of the next step.
    :param event: The event that follows; ``None`` to look again later.
    :param errors: Measuring errors in a row, for the next look.
    :param unwritten: A sentence on queries of green without written rows where blue has written; otherwise empty.
    :param asks: A user must decide; waiting alone proves no more.
    """

    result: Result
    reason: str
    figures: Mapping[str, str] = field(default_factory=dict)
    event: CutoverEvent | None = None
    errors: int = 0
    unwritten: str = ""
    asks: bool = False


def judge_catching_up(
    green: LaneFigures | None,
    blue: LaneFigures | None,
    terms: ReadyTerms,
    *,
    queries: Collection[str] = (),
    covers: Mapping[str, bool | None] | None = None,
    now: datetime,
) -> Judgment:
    """
    Say whether green has read what blue has read.

    :param queries: See ``missing``.
    :param covers: By query, whether green's position covers blue's position at the start of catching up;
        ``None`` where that is unknown, and then the backlog decides.
    :return: With ``GREEN_CAUGHT_UP`` and the facts of ``Since``, or without an event: a driver that
        does not work is tended by the task that started it, and the state has its deadline.
    """
    if green is None:
        return _waits("Green's driver has not given a sign of life yet.")
    if blue is None:
        return _waits("Blue's backlog is not visible.")
    told = figures_told(green, blue)
    lacking = [*trouble(green, blue), *missing(green, blue, queries)]
    for query in green.queries:
        lacking += uncaught(query, blue.query(query.name), terms, (covers or {}).get(query.name))
    if lacking:
        return _waits(lacking[0], told)
    facts = told | Since.of(green, now).facts()
    reason = "Green has read as far as blue."
    return _judged(Result.PASS, reason, facts, CutoverEvent.GREEN_CAUGHT_UP)


def judge_ready(
    green: LaneFigures | None,
    blue: LaneFigures | None,
    terms: ReadyTerms,
    since: Since | None,
    *,
    queries: Collection[str] = (),
    compared: bool = False,
    errors: int = 0,
    now: datetime,
) -> Judgment:
    """
    Say whether green has been well for as long as the terms ask.

    :param since: ``Since.from_facts`` of the step that led to ``shadowing``.
    :param queries: See ``missing``.
    :param compared: Its output will be compared with blue's. Then a green that commits and reads no
        row, which may have let all of them go, is for the comparison to judge.
    :param errors: ``Judgment.errors`` of the look before; 0 for the first.
    :return: With ``GREEN_WELL``, ``GREEN_FELL_BEHIND``, ``GREEN_CHANGED`` or ``INCONCLUSIVE``, or
        without an event. An interruption is an event too, so that time before it never counts.
    """
    if green is None:
        return fold_errors(errors, terms, "Green's driver cannot be seen.")
    if since is None or (since.deployment, since.epoch) != (green.deployment, green.epoch):
        reason = f"Green runs epoch {green.epoch} now; results of another driver do not count."
        return _judged(Result.FAIL, reason, {}, CutoverEvent.GREEN_CHANGED)
    told = figures_told(green, blue)
    broken = [*trouble(green, blue), *behind(green, blue, terms)]
    if broken:
        return _judged(Result.FAIL, broken[0], told, CutoverEvent.GREEN_FELL_BEHIND)
    if blue is None:
        return fold_errors(errors, terms, "Blue's driver cannot be seen to compare with.")
    # The two clocks are only compared with themselves; what both agree on has passed.
    well = max(timedelta(0), min(green.at - since.at, age_of(since.seen_at, now)))
    is_told = any(
        query.read or (compared and query.batches >= terms.batches) for query in green.queries
    )
    lacking = [*missing(green, blue, queries), *unproved(green, blue, terms)]
    dropped = " ".join(unwritten(green, blue))
    if dropped and not compared:
        lacking.append(dropped)
    return replace(_shown(terms, well, told, is_told, lacking), unwritten=dropped)


def judge_after(soak: SoakVerdict) -> Judgment:
    """Return the judgment by the soak after the switch: ``SOAK_PASSED``, ``SOAK_FAILED`` or no event."""
    result, event = {
        SoakResult.GOOD: (Result.PASS, CutoverEvent.SOAK_PASSED),
        SoakResult.BAD: (Result.FAIL, CutoverEvent.SOAK_FAILED),
        SoakResult.UNDECIDED: (Result.INCONCLUSIVE, None),
        SoakResult.UNPROVED: (Result.INCONCLUSIVE, None),
    }[soak.result]
    judged = _judged(result, soak.reason, soak.figures, event)
    return replace(judged, asks=soak.result is SoakResult.UNPROVED)


def judge_reports(reports: Iterable[CompareReport]) -> Judgment:
    """
    Combine the results of all comparisons.

    :return: With ``OUTPUT_SAME``, ``OUTPUT_DIFFERS`` or ``INCONCLUSIVE``. A single difference
        decides. Without any report the output counts as the same.
    """
    known = list(reports)
    values = {f"compared {report.stream}": report.reason for report in known}
    for wanted, result, event in (
        (CompareResult.DIFFERS, Result.FAIL, CutoverEvent.OUTPUT_DIFFERS),
        (CompareResult.INCONCLUSIVE, Result.INCONCLUSIVE, CutoverEvent.INCONCLUSIVE),
    ):
        found = [report for report in known if report.result is wanted]
        if found:
            reason = " ".join(f"{report.stream}: {report.reason}" for report in found)
            return _judged(result, reason, values, event)
    reason = " ".join(f"{report.stream}: {report.reason}" for report in known)
    none = "The terms have no comparison of outputs."
    return _judged(Result.PASS, reason or none, values, CutoverEvent.OUTPUT_SAME)


def fold_errors(errors: int, terms: ReadyTerms, error: str) -> Judgment:
    """
    Count an error of measuring.

    :param errors: Number of preceding errors in a row.
    :param error: The error, in a sentence.
    :return: Inconclusive; with the event ``INCONCLUSIVE`` once the limit of the terms is reached.
    """
    count = errors + 1
    reason = f"Measuring green has failed {count} times in a row, so green is not judged: {error}"
    is_enough = count >= terms.measuring_errors
    return Judgment(
        result=Result.INCONCLUSIVE,
        reason=reason,
        figures={"measuring_errors": str(count)},
        event=CutoverEvent.INCONCLUSIVE if is_enough else None,
        errors=count,
    )


def _shown(
    terms: ReadyTerms, well: timedelta, values: dict[str, str], is_told: bool, lacking: list[str]
) -> Judgment:
    """
    Judge the time for which green has been well.

    :param is_told: It had input, or its reaction is visible elsewhere.
    :param lacking: Facts it has not shown yet.
    """
    facts = values | {"well_for": duration_text(well)}
    if not lacking and is_told and well >= terms.well_for:
        reason = f"Green has been well for {duration_text(well)}."
        return _judged(Result.PASS, reason, facts, CutoverEvent.GREEN_WELL)
    nothing = "Green has had nothing to read."
    if well >= PATIENCE * terms.well_for and (lacking or not is_told):
        reason = f"After {duration_text(well)} nothing is proved: {(lacking or [nothing])[0]}"
        return _judged(Result.INCONCLUSIVE, reason, facts, CutoverEvent.INCONCLUSIVE)
    waits = f"Green has been well for {duration_text(well)} of {duration_text(terms.well_for)}."
    return _waits(next(iter(lacking), waits if is_told else nothing), facts)


def _waits(reason: str, figures: Mapping[str, str] | None = None) -> Judgment:
    return _judged(Result.INCONCLUSIVE, reason, figures or {}, None)


def _judged(
    result: Result, reason: str, figures: Mapping[str, str], event: CutoverEvent | None
) -> Judgment:
    return Judgment(result=result, reason=reason, figures=figures, event=event)
