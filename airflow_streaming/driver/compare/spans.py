"""When the rows of an output are: first and last, and which of them are in the common time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.core.cutover.comparing.common_time import CommonTime
from airflow_streaming.core.cutover.comparing.report import SideFound

MOMENT: Final = "__moment"
"""Name of the column with a row's time in microseconds since 1970."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def with_moment(rows: Any, time: str) -> Any:
    """Return the rows with their time as a number; no time at all without a time column."""
    from pyspark.sql import functions as F

    if not time:
        return rows.withColumn(MOMENT, F.lit(None).cast("bigint"))
    kind = rows.select(time).dtypes[0][1]
    # A text that is no time is a row without a time.
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
    told = {row[0]: tuple(row)[1:] for row in rows}
    return told.get(True), told.get(False)


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
    """Return the rows that are compared: those of the common time, and those without a time."""
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
