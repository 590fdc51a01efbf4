"""
Comparing: what was found in the outputs of blue and green, and what it says.

Rows are counted and summed by time bucket and key over the time that both outputs cover. What is
newer than both watermarks may still be in flight on one side, what is older than the beginning of
one side was never its to write; such rows are counted and told, and left out. Nothing to compare is
inconclusive, never the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.core.cutover.terms import CompareTerms
from airflow_streaming.core.wire import Record

MOST_NAMED: Final = 50
"""Differences that are named in a report; all are counted."""


class CompareResult(StrEnum):
    """What a comparison says."""

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
        green reads; ``None`` where the outputs themselves have to tell.
    :param until: All rows before this time are known to be written by both; ``None`` where that is
        not known.
    :param from_beginning: Both have read their sources from the beginning, so that neither output
        should begin later than the other.
    :param late_rows: Rows that either driver has dropped behind its watermark. Which rows are late
        depends on how they fall into batches, so these may differ without a fault.
    """

    blue: datetime | None = None
    green: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None
    from_beginning: bool = False
    late_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFound:
    """
    What was found in one output.

    :param uri: Where it was read.
    :param exists: There is an output at all.
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
    :param blue: Blue's figure as text, exact; empty where there is none.
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
    What a full comparison found: rows that one side has more often than the other.

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

    :param at: When it was made.
    :param common_from: Beginning of the time that was compared, inclusive; ``None`` without one.
    :param common_until: Its end, exclusive.
    :param columns: Columns that differ in their type, or are missing.
    :param groups: Buckets and keys that were compared.
    :param differing: Those of them that differ.
    :param differences: Figures that differ, at most 50 of them, by bucket and key.
    :param full: ``None`` when rows were not compared one by one.
    :param notes: What else a reader should know, a sentence each.
    :param error: Why it could not be made, in a sentence; empty when it was.
    :param refused: The terms do not fit the outputs: trying again will not help.
    :param seconds: How long it took.
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

    @property
    def is_same(self) -> bool:
        """Tell whether the outputs were compared, and nothing differs."""
        return self.result is CompareResult.SAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    One comparison that is asked for.

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
    What the Spark of a comparison has to do.

    :param reports: File to which it appends a report a comparison, a line each.
    :param seconds: Time it may take.
    :param held: File that whoever ordered it keeps locked while he lives.
    :param scratch: Folder that is removed when he does not.
    """

    KIND: ClassVar[str] = "compare_order"

    asked: tuple[Asked, ...]
    reports: str
    seconds: float
    held: str = ""
    scratch: str = ""


def not_made(asked: Asked, error: str, *, at: datetime, refused: bool = False) -> CompareReport:
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
