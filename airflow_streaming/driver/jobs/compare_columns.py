"""
The comparable part of two outputs: rows, columns and the time range that both hold.

Order and nullability do not matter to rows and are not compared. A column of another type is a
difference even where the values look alike: readers of the output would get another type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import ColumnDiffers, CommonTime, SideFound
from airflow_streaming.model.spark.failure_signs import Hint, hints
from airflow_streaming.model.uris import to_hadoop

_TIMES: Final = frozenset({"timestamp", "timestamp_ntz", "date", "string"})
_EXACT: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATING: Final = frozenset({"float", "double"})

MOMENT: Final = "__moment"
"""Name of the column with a row's time in microseconds since 1970."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Absent(Exception):
    """
    The output cannot be read because it is missing or empty.

    :param exists: The output's location exists but has no rows yet.
    """

    def __init__(self, *, exists: bool) -> None:
        super().__init__("The output does not exist.")
        self.exists = exists


def open_output(session: Any, uri: str, terms: CompareTerms) -> Any:
    """
    Return the rows of an output, as they are committed now.

    :raises Absent: nothing was written yet.
    """
    options = dict(terms.options)
    reader = session.read.format(terms.format)
    schema = options.pop("schema", None)
    if schema is not None:
        reader = reader.schema(schema)
    try:
        return reader.options(**options).load(to_hadoop(uri))
    except Exception as err:
        is_empty = hints(str(err), Hint.EMPTY_OUTPUT)
        if is_empty or hints(str(err), Hint.NO_OUTPUT):
            raise Absent(exists=is_empty) from err
        raise


def was_replaced(err: Exception) -> bool:
    """Tell whether reading failed because files were taken away meanwhile."""
    return hints(str(err), Hint.REPLACED)


class Unfit(Exception):
    """The terms cannot be applied to the outputs; the message says why."""


class Measured(NamedTuple):
    """
    A column that is summed.

    :param name: The name in the terms.
    :param exact: Its sums are exact; sums of floating-point numbers depend on the order of rows.
    """

    name: str
    exact: bool


def columns_that_differ(blue: Any, green: Any, terms: CompareTerms) -> list[ColumnDiffers]:
    """Return the columns whose types differ, or that one side lacks, but for ignored ones."""
    ours, theirs = dict(blue.dtypes), dict(green.dtypes)
    return [
        ColumnDiffers(column=name, blue=ours.get(name, ""), green=theirs.get(name, ""))
        for name in dict.fromkeys([*ours, *theirs])
        if name not in terms.ignore and ours.get(name) != theirs.get(name)
    ]


def type_of(rows: Any, name: str) -> str:
    """Return the type of a column, which may be a field of another; empty where it is missing."""
    try:
        found: str = rows.select(name).dtypes[0][1]
    except Exception:  # noqa: BLE001 - whatever Spark says, it cannot be selected
        return ""
    return found


def check_time(blue: Any, green: Any, terms: CompareTerms) -> bool:
    """
    Tell whether both sides can be cut by time.

    :raises Unfit: neither side has the column, or its type is not a time.
    """
    return not terms.time or _fits(blue, green, terms.time, _TIMES, "bucket by", "a time")


def usable_keys(blue: Any, green: Any, terms: CompareTerms) -> list[str]:
    """
    Return the key columns that both sides have; a missing column is reported as a difference.

    :raises Unfit: both sides lack one of them.
    """
    return [key for key in terms.keys if _fits(blue, green, key, None, "group by", "")]


def usable_sums(blue: Any, green: Any, terms: CompareTerms) -> list[Measured]:
    """
    Return the columns to sum that both sides have as numbers.

    :raises Unfit: neither side has one of them, or it is a number in neither.
    """
    return list(_sums(blue, green, terms))


def _sums(blue: Any, green: Any, terms: CompareTerms) -> Iterator[Measured]:
    for name in terms.sums:
        types = type_of(blue, name), type_of(green, name)
        numeric = [_is_number(one) for one in types]
        if not any(numeric):
            _refuse(name, types, "sum", "a number")
        if all(numeric):
            yield Measured(name, exact=_FLOATING.isdisjoint(types))


def _fits(
    blue: Any, green: Any, name: str, wanted: frozenset[str] | None, use: str, what: str
) -> bool:
    types = type_of(blue, name), type_of(green, name)
    fits = [bool(one) and (wanted is None or one in wanted) for one in types]
    if not any(fits):
        _refuse(name, types, use, what)
    return all(fits)


def _refuse(name: str, types: tuple[str, str], use: str, what: str) -> None:
    if not any(types):
        raise Unfit(
            f"Neither output has a column {name!r} to {use}. Name a column that both outputs have."
        )
    raise Unfit(
        f"Column {name!r} is {types[0] or 'missing'} in blue and {types[1] or 'missing'} in green; "
        f"to {use} it must be {what}."
    )


def _is_number(name: str) -> bool:
    return name in _EXACT or name in _FLOATING or name.startswith("decimal")


def with_moment(rows: Any, time: str) -> Any:
    """Return the rows with their time as a number; no time at all without a time column."""
    from pyspark.sql import functions as F

    if not time:
        return rows.withColumn(MOMENT, F.lit(None).cast("bigint"))
    kind = rows.select(time).dtypes[0][1]
    # A text that cannot be parsed as a time makes a row without a time.
    moment = F.try_to_timestamp(F.col(time)) if kind == "string" else F.col(time)
    return rows.withColumn(MOMENT, F.unix_micros(moment.cast("timestamp")))


def spans_of(blue: Any, green: Any, found: tuple[SideFound, SideFound]) -> tuple[SideFound, ...]:
    """Count the rows of both sides, and find the first and the last time of each."""
    from pyspark.sql import functions as F

    told = _by_side(blue, green, F.count(F.lit(1)), F.count(MOMENT), F.min(MOMENT), F.max(MOMENT))
    return tuple(
        side if figures is None else _with_span(side, *figures)
        for side, figures in zip(found, told, strict=True)
    )


def split(
    blue: Any, green: Any, found: tuple[SideFound, ...], common: CommonTime
) -> tuple[SideFound, ...]:
    """Count the rows of both sides before, in and after the common time."""
    from pyspark.sql import functions as F

    if common == CommonTime():
        return tuple(replace(side, compared=side.rows) for side in found)
    before, after = _before(common), _after(common)
    one = F.lit(1)
    told = _by_side(
        blue, green, F.count(F.when(before, one)), F.count(F.when(after & ~before, one))
    )
    return tuple(
        side if figures is None else _with_split(side, *figures)
        for side, figures in zip(found, told, strict=True)
    )


def _by_side(blue: Any, green: Any, *figures: Any) -> tuple[Any, Any]:
    """Return figures of blue's rows and of green's, ``None`` for a side without rows."""
    from pyspark.sql import functions as F

    sides = [
        rows.select(MOMENT, F.lit(mine).alias("blue"))
        for rows, mine in ((blue, True), (green, False))
    ]
    rows = sides[0].unionByName(sides[1]).groupBy("blue").agg(*figures).collect()
    values = {row[0]: tuple(row)[1:] for row in rows}
    return values.get(True), values.get(False)


def _with_span(
    side: SideFound, rows: int, timed: int, first: int | None, last: int | None
) -> SideFound:
    return replace(
        side,
        rows=rows,
        timeless=rows - timed,
        first=None if first is None else moment_of(first),
        last=None if last is None else moment_of(last),
    )


def _with_split(side: SideFound, before: int, after: int) -> SideFound:
    return replace(side, before=before, after=after, compared=side.rows - before - after)


def within(rows: Any, common: CommonTime) -> Any:
    """Return the rows to compare: rows of the common time and rows without a time."""
    return rows.where(~(_before(common) | _after(common)))


def moment_of(micros: int) -> datetime:
    """Return the time of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=micros)


def micros_of(moment: datetime) -> int:
    """Return the microseconds since 1970 of a time."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _before(common: CommonTime) -> Any:
    return _is(common.begin, "<")


def _after(common: CommonTime) -> Any:
    return _is(common.end, ">=")


def _is(bound: datetime | None, what: str) -> Any:
    from pyspark.sql import functions as F

    if bound is None:
        return F.lit(False)
    limit = F.lit(micros_of(bound))
    outside = F.col(MOMENT) < limit if what == "<" else F.col(MOMENT) >= limit
    return F.coalesce(outside, F.lit(False))
