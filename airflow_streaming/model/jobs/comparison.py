"""
Comparing two outputs: order, figures, the common time range, and the answer in three values.

Rows are counted and summed by time bucket and key over the time that both outputs cover. Rows newer
than both watermarks may still be in flight on one side. Rows older than the beginning of one side
were never its to write. Both are counted and reported, and left out. An empty comparison is
inconclusive, never the same.

The range ends where either side may still write: at the older watermark, or, where a side has none,
at the last row of the slower side. It begins with the output that begins later; the bucket of this
beginning is left out, because the later side has only a part of it.

A difference counts only without another explanation: with rows dropped as late on one side, or an
output that begins later because its sources no longer hold the beginning, the operator must decide.
An empty common range is never the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import ClassVar, Final, NamedTuple, Self

from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.uris import in_full
from airflow_streaming.model.wire import Record

MOST_NAMED: Final = 50
"""Differences that are named in a report; all are counted."""

PAUSE: Final = 5.0
"""Least number of seconds between two looks at outputs that differ."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST: Final = timedelta(microseconds=1)

_SHOWN: Final = 3
"""Differences that a reason names; the report has more of them."""


class CompareResult(StrEnum):
    """The answer of a comparison."""

    SAME = "same"
    DIFFERS = "differs"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """
    The time within which outputs can be compared, as far as it is known beforehand.

    Times are event times, of the column that the terms name.

    :param blue: Blue's watermark, read before its output; ``None`` where it has none.
    :param green: The same of green.
    :param since: From when on both outputs should be complete, such as the time from which a fresh
        green reads; ``None`` where the outputs themselves show it.
    :param until: All rows before this time are known to be written by both; ``None`` where that is
        not known.
    :param from_beginning: Both have read their sources from the beginning, so that neither output
        should begin later than the other.
    :param late_rows: Rows that either driver has dropped behind its watermark. Which rows are late
        depends on how they fall into batches, so these may differ without a fault.
    :param in_flight: How long a lane may take to write a row that the other lane has written.
    """

    blue: datetime | None = None
    green: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None
    from_beginning: bool = False
    late_rows: int = 0
    in_flight: timedelta = timedelta(0)


class LaterLooks(NamedTuple):
    """
    The looks at outputs that differ, after the first look.

    :param pause: Seconds before each of them.
    """

    number: int
    pause: float

    @classmethod
    def within(cls, in_flight: timedelta, *, least: int, most: int | None = None) -> Self:
        """
        Return the looks that wait for all rows in flight.

        :param most: Greatest number of looks; the pauses grow with the time in flight.
        """
        seconds = in_flight.total_seconds()
        number = max(least, ceil(seconds / PAUSE))
        if most is None or number <= most:
            return cls(number, PAUSE)
        return cls(most, seconds / most)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFound:
    """
    The rows of one output.

    :param rows: All of its rows.
    :param first: Earliest time of a row.
    :param last: Latest.
    :param before: Rows before the common time.
    :param after: Rows later than the common time, or than the settled bound.
    :param timeless: Rows without a time; they are compared in a bucket of their own.
    :param compared: Rows that were compared.
    """

    uri: str
    exists: bool = True
    rows: int = 0
    first: datetime | None = None
    last: datetime | None = None
    before: int = 0
    after: int = 0
    timeless: int = 0
    compared: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDiffers:
    """A column whose type differs; an empty type where a side does not have it."""

    column: str
    blue: str
    green: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDiffers:
    """
    A bucket and key for which the two differ.

    :param bucket: Beginning of the bucket, ISO 8601; empty without a time column, or a time.
    :param key: Values of the key columns as text; a missing value is ``null``.
    :param what: ``rows``, or ``sum of`` and the column.
    :param blue: Blue's figure as text, exact; empty if missing.
    :param green: Green's.
    """

    bucket: str
    key: Mapping[str, str]
    what: str
    blue: str
    green: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsDiffer:
    """
    The result of a full comparison: rows that one side has more often than the other.

    :param blue: How many rows only blue has.
    :param green: How many only green has.
    :param sample: Some of them as JSON, each with ``blue: `` or ``green: `` in front.
    """

    blue: int = 0
    green: int = 0
    sample: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareReport(Record):
    """
    A comparison of the outputs of blue and green.

    :param common_from: Beginning of the compared time range, inclusive; ``None`` without one.
    :param common_until: Its end, exclusive.
    :param columns: Columns that differ in their type, or are missing.
    :param groups: Number of compared buckets and keys.
    :param differing: Number of differing ones.
    :param differences: Figures that differ, at most 50 of them, by bucket and key.
    :param full: ``None`` when rows were not compared one by one.
    :param notes: Other remarks for a reader, a sentence each.
    :param error: Why it could not be made, in a sentence; empty when it was.
    :param refused: The terms do not fit the outputs: trying again will not help.
    :param spark: Version of Spark that read the outputs.
    """

    KIND: ClassVar[str] = "compare_report"

    stream: str
    result: CompareResult
    reason: str
    at: datetime
    blue: SideFound
    green: SideFound
    common_from: datetime | None = None
    common_until: datetime | None = None
    columns: tuple[ColumnDiffers, ...] = ()
    groups: int = 0
    differing: int = 0
    differences: tuple[GroupDiffers, ...] = ()
    full: RowsDiffer | None = None
    notes: tuple[str, ...] = ()
    error: str = ""
    refused: bool = False
    seconds: float = 0.0
    spark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """
    The request for one comparison.

    :param blue: URI of blue's output.
    :param green: URI of green's.
    """

    terms: CompareTerms
    blue: str
    green: str
    bound: Bound = field(default_factory=Bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOrder(Record):
    """
    The order to the Spark of a comparison.

    :param reports: File to which it appends a report a comparison, a line each.
    """

    KIND: ClassVar[str] = "compare_order"

    asked: tuple[ComparisonRequest, ...]
    reports: str
    seconds: float
    held: str = ""
    scratch: str = ""


def not_made(
    asked: ComparisonRequest, error: str, *, at: datetime, refused: bool = False
) -> CompareReport:
    """Return the report of a comparison that could not be made: it proves nothing."""
    return CompareReport(
        stream=asked.terms.stream,
        result=CompareResult.INCONCLUSIVE,
        reason=error,
        at=at,
        blue=SideFound(uri=asked.blue),
        green=SideFound(uri=asked.green),
        error=error,
        refused=refused,
    )


def is_one_output(asked: ComparisonRequest) -> str:
    """Return why a comparison of one output with itself is refused; empty for two outputs."""
    one, other = (in_full(uri).rstrip("/") for uri in (asked.blue, asked.green))
    if one != other:
        return ""
    return (
        f"Both lanes' output is {one}, and a comparison of it with itself proves nothing. Name an output for each "
        "lane: with {stream} and {deployment} in CompareTerms.topic, or in the script's arguments."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonTime:
    """
    A span of event time.

    :param begin: Inclusive; ``None`` for no bound.
    :param end: Exclusive; ``None`` for no bound.
    """

    begin: datetime | None = None
    end: datetime | None = None


def common_time(terms: CompareTerms, bound: Bound, blue: SideFound, green: SideFound) -> CommonTime:
    """Return the time in which two outputs are compared; without a time column all of it."""
    if not terms.time:
        return CommonTime()
    return CommonTime(begin=_begin(terms, bound, blue, green), end=_end(terms, bound, blue, green))


def bucket_of(moment: datetime, length: timedelta) -> datetime:
    """Return the beginning of the bucket that a moment is in; buckets count from 1970 in UTC."""
    return _EPOCH + (moment - _EPOCH) // length * length


def _begin(terms: CompareTerms, bound: Bound, blue: SideFound, green: SideFound) -> datetime | None:
    if bound.since is not None:
        return bound.since
    if blue.first is None or green.first is None:
        return None
    first, later = sorted(bucket_of(moment, terms.bucket) for moment in (blue.first, green.first))
    return first if first == later else later + terms.bucket


def _end(terms: CompareTerms, bound: Bound, blue: SideFound, green: SideFound) -> datetime | None:
    known = list(_ends(bound, blue, green))
    return min(known) - terms.settled if known else None


def _ends(bound: Bound, blue: SideFound, green: SideFound) -> Iterator[datetime]:
    if bound.until is not None:
        yield bound.until
    for watermark, side, other in ((bound.blue, blue, green), (bound.green, green, blue)):
        if watermark is not None:
            yield watermark
        elif bound.until is None and side.last is not None:
            # With the same last time on both sides, neither side is behind.
            yield side.last + _LEAST if side.last == other.last else side.last


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
    message = f"{empty} has written no row, and {name} has {other.compared:,} in the time compared"
    should = bound.from_beginning or bound.since is not None or report.common_until is None
    if other.compared and should:
        return CompareResult.DIFFERS, f"{message}{_span(report)}."
    return CompareResult.INCONCLUSIVE, f"{message}; whether it should have any yet is not known."


def _columns(report: CompareReport) -> Found | None:
    if not report.columns:
        return None
    text = ", ".join(
        f"{c.column} is {c.blue or 'missing'} in blue and {c.green or 'missing'} in green"
        for c in report.columns[:_SHOWN]
    )
    return CompareResult.DIFFERS, (
        f"Columns differ ({len(report.columns)}): {text}. Add expected differences to the "
        "terms' ignore."
    )


def _too_little(report: CompareReport, terms: CompareTerms) -> Found | None:
    most = max(report.blue.compared, report.green.compared)
    if most >= max(1, terms.least_rows):
        return None
    return CompareResult.INCONCLUSIVE, (
        f"Too few rows to compare{_span(report)}: {report.blue.compared:,} in blue, "
        f"{report.green.compared:,} in green; the minimum is {max(1, terms.least_rows):,}. "
        f"Outside it are {_outside(report)}."
    )


def _groups(report: CompareReport, terms: CompareTerms, bound: Bound) -> Found | None:
    if not report.differing:
        return None
    named = "; ".join(shown(found) for found in report.differences[:_SHOWN])
    message = f"{report.differing:,} of {report.groups:,} buckets and keys differ{_span(report)}"
    if report.differing <= bound.late_rows:
        return CompareResult.INCONCLUSIVE, (
            f"{message}, and {bound.late_rows:,} rows were dropped as late, which can be the cause: "
            f"{named}."
        )
    if _is_at_the_end(report, terms, bound):
        return CompareResult.INCONCLUSIVE, (
            f"{message}, all of them in the last bucket and with rows on one side only, which can be "
            f"windows that the other has not closed: {named}. Look again later, or set 'settled' to "
            "the length of the windows."
        )
    return CompareResult.DIFFERS, f"{message}: {named}."


def _is_at_the_end(report: CompareReport, terms: CompareTerms, bound: Bound) -> bool:
    """Tell whether one side may only not have come to it yet, and nothing says otherwise."""
    begin, end = report.common_from, report.common_until
    if begin is None or end is None or terms.settled or bound.until is not None:
        return False
    last = bucket_of(end - _LEAST, terms.bucket)
    # The first differences are listed by their buckets: every unlisted one is later.
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
    message = f"{full.blue:,} rows are only in blue and {full.green:,} only in green{_span(report)}"
    if max(full.blue, full.green) <= bound.late_rows:
        return CompareResult.INCONCLUSIVE, (
            f"{message}, and {bound.late_rows:,} rows were dropped as late, which can be the cause"
            f"{sample}."
        )
    return CompareResult.DIFFERS, f"{message}{sample}."


def _beginnings(report: CompareReport, terms: CompareTerms, bound: Bound) -> Found | None:
    if bound.since is not None or not bound.from_beginning:
        return None
    begun = {"blue": report.blue.first, "green": report.green.first}
    known = sorted((bucket_of(at, terms.bucket), name) for name, at in begun.items() if at)
    if len(known) < 2 or known[0][0] == known[1][0]:
        return None
    (_, earlier), (begins, later) = known
    return CompareResult.INCONCLUSIVE, (
        f"The common rows are the same{_span(report)}, but {earlier} has rows before "
        f"{_second(begins)} and {later} has none. If the sources no longer hold the input of "
        "these rows, set the time at which the comparison starts."
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
