"""
What the figures of a comparison say, in three values.

A difference is one only where nothing else can explain it: rows that were dropped as late on one
side, and an output that begins later because its sources no longer hold the beginning, leave it to a
person. Nothing in common time is never the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.core.cutover.comparing.common_time import bucket_of
from airflow_streaming.core.cutover.comparing.report import (
    Bound,
    CompareReport,
    CompareResult,
    GroupDiffers,
)
from airflow_streaming.core.cutover.terms import CompareTerms

_SHOWN: Final = 3
"""Differences that a reason names; the report has more of them."""

_LEAST: Final = timedelta(microseconds=1)

Found = tuple[CompareResult, str]


def judge_comparison(report: CompareReport, terms: CompareTerms, bound: Bound) -> CompareReport:
    """Return a report with the result that its figures give, and the reason."""
    result, reason = (
        _nothing_there(report, bound)
        or _columns(report)
        or _too_little(report, terms)
        or _groups(report, terms, bound)
        or _rows(report, bound)
        or _beginnings(report, terms, bound)
        or _same(report)
    )
    return replace(report, result=result, reason=reason, notes=tuple(_notes(report, terms, bound)))


def _nothing_there(report: CompareReport, bound: Bound) -> Found | None:
    blue, green = report.blue, report.green
    if blue.rows and green.rows:
        return None
    if not blue.rows and not green.rows:
        return (
            CompareResult.INCONCLUSIVE,
            "Neither output has a row, so there is nothing to compare.",
        )
    empty, other = ("Green", blue) if blue.rows else ("Blue", green)
    name = "blue" if blue.rows else "green"
    said = f"{empty} has written no row, and {name} has {other.compared:,} in the time compared"
    should = bound.from_beginning or bound.since is not None or report.common_until is None
    if other.compared and should:
        return CompareResult.DIFFERS, f"{said}{_span(report)}."
    return CompareResult.INCONCLUSIVE, f"{said}; whether it should have any yet is not known."


def _columns(report: CompareReport) -> Found | None:
    if not report.columns:
        return None
    told = ", ".join(
        f"{c.column} is {c.blue or 'missing'} in blue and {c.green or 'missing'} in green"
        for c in report.columns[:_SHOWN]
    )
    return CompareResult.DIFFERS, f"Columns differ ({len(report.columns)}): {told}."


def _too_little(report: CompareReport, terms: CompareTerms) -> Found | None:
    most = max(report.blue.compared, report.green.compared)
    if most >= max(1, terms.least_rows):
        return None
    return CompareResult.INCONCLUSIVE, (
        f"Too few rows to compare{_span(report)}: {report.blue.compared:,} in blue, "
        f"{report.green.compared:,} in green, and {max(1, terms.least_rows):,} are asked for. "
        f"Outside it are {_outside(report)}."
    )


def _groups(report: CompareReport, terms: CompareTerms, bound: Bound) -> Found | None:
    if not report.differing:
        return None
    named = "; ".join(shown(found) for found in report.differences[:_SHOWN])
    said = f"{report.differing:,} of {report.groups:,} buckets and keys differ{_span(report)}"
    if report.differing <= bound.late_rows:
        return CompareResult.INCONCLUSIVE, (
            f"{said}, and {bound.late_rows:,} rows were dropped as late, which can be the cause: "
            f"{named}."
        )
    if _is_at_the_end(report, terms, bound):
        return CompareResult.INCONCLUSIVE, (
            f"{said}, all of them in the last bucket and with rows on one side only, which can be "
            f"windows that the other has not closed: {named}. Look again later, or set 'settled' to "
            "the length of the windows."
        )
    return CompareResult.DIFFERS, f"{said}: {named}."


def _is_at_the_end(report: CompareReport, terms: CompareTerms, bound: Bound) -> bool:
    """Tell whether one side may only not have come to it yet, and nothing says otherwise."""
    begin, end = report.common_from, report.common_until
    if begin is None or end is None or terms.settled or bound.until is not None:
        return False
    last = bucket_of(end - _LEAST, terms.bucket)
    # The first differences are named, by their buckets: none that is not named is earlier.
    return begin < last and all(
        found.bucket
        and datetime.fromisoformat(found.bucket) >= last
        and found.what == "rows"
        and "0" in (found.blue, found.green)
        for found in report.differences
    )


def _rows(report: CompareReport, bound: Bound) -> Found | None:
    full = report.full
    if full is None or not (full.blue or full.green):
        return None
    sample = f": {full.sample[0]}" if full.sample else ""
    said = f"{full.blue:,} rows are only in blue and {full.green:,} only in green{_span(report)}"
    if max(full.blue, full.green) <= bound.late_rows:
        return CompareResult.INCONCLUSIVE, (
            f"{said}, and {bound.late_rows:,} rows were dropped as late, which can be the cause"
            f"{sample}."
        )
    return CompareResult.DIFFERS, f"{said}{sample}."


def _beginnings(report: CompareReport, terms: CompareTerms, bound: Bound) -> Found | None:
    if bound.since is not None or not bound.from_beginning:
        return None
    begun = {"blue": report.blue.first, "green": report.green.first}
    known = sorted((bucket_of(at, terms.bucket), name) for name, at in begun.items() if at)
    if len(known) < 2 or known[0][0] == known[1][0]:
        return None
    (_, earlier), (begins, later) = known
    return CompareResult.INCONCLUSIVE, (
        f"What both have is the same{_span(report)}, but {earlier} has rows before "
        f"{_second(begins)} and {later} has none. If the sources no longer hold what they come "
        "from, say from when on to compare."
    )


def _same(report: CompareReport) -> Found:
    outside = _outside(report)
    rest = f" Not compared: {outside}." if outside != "none" else ""
    return CompareResult.SAME, (
        f"{report.green.compared:,} rows in {report.groups:,} buckets and keys are the same"
        f"{_span(report)}.{rest}"
    )


def shown(found: GroupDiffers) -> str:
    """Return a difference in words, e.g. ``10:00 store=7: rows 12 in blue, 11 in green``."""
    key = ", ".join(f"{name}={value}" for name, value in found.key.items())
    where = " ".join(part for part in (found.bucket, key) if part) or "all rows"
    return f"{where}: {found.what} {found.blue or 'none'} in blue, {found.green or 'none'} in green"


def _notes(report: CompareReport, terms: CompareTerms, bound: Bound) -> Iterator[str]:
    if not terms.time:
        yield "Without a time column all rows are compared, those in flight too."
    elif bound.until is None and (bound.blue is None or bound.green is None):
        yield "Not both watermarks are known; the last rows of the output behind end the time."
    if bound.late_rows:
        yield f"{bound.late_rows:,} rows were dropped as late by either driver."
    for name, side in (("Blue", report.blue), ("Green", report.green)):
        if side.timeless:
            yield f"{name} has {side.timeless:,} rows without a time; they are compared together."


def _outside(report: CompareReport) -> str:
    told = [
        f"{count:,} {when} rows of {name}"
        for name, side in (("blue", report.blue), ("green", report.green))
        for when, count in (("earlier", side.before), ("later", side.after))
        if count
    ]
    return ", ".join(told) or "none"


def _span(report: CompareReport) -> str:
    begin, end = _second(report.common_from), _second(report.common_until)
    if begin and end:
        return f" from {begin} to {end}"
    return f" from {begin} on" if begin else f" before {end}" if end else ""


def _second(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(timespec="seconds").replace("+00:00", "Z")
