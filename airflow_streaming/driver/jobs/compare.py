"""
The driver of a comparison: reads two outputs and reports where they differ.

The files are listed once, when the output is opened, and every count is made of these. Where a file
sink keeps a log, Spark lists what the log has committed, so that a batch is there with all of its
files or with none. What other writers replace while it is read is gone, and is read again.

Order and nullability say nothing of the rows and are not compared. A column of another type is a
difference even where the values look alike: readers of the output would get another type.

Both sides are put on top of each other and aggregated together, so a key that one side lacks, or
that is null, needs no join, and what Spark holds in memory is bounded: it spills the rest.

A row is compared as the text of its columns, so that columns of any type can be. First its hash
alone: hashes are counted and added up in 65,536 buckets, which moves no rows about. Only what is in
buckets that differ is then counted row by row, both sides together; a row that both have as often as
each other cancels out. That a difference hides from a bucket's sums takes a chance of 1 in 2^64.

It is an ordinary Spark application on this host, started by ``spark_jobs.compare`` with one argument,
the file of its order. It writes nothing but its reports, a line each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.errors import log_to_stderr, logger
from airflow_streaming.driver.jobs.drill import leave_after
from airflow_streaming.driver.jobs.rehearsal import leave_with_caller
from airflow_streaming.driver.jobs.scratch_patch import sentence_of
from airflow_streaming.driver.script import error_of
from airflow_streaming.model.codec import format_time
from airflow_streaming.model.failure_signs import Hint, hints
from airflow_streaming.model.jobs.comparison import (
    MOST_NAMED,
    Asked,
    ColumnDiffers,
    CommonTime,
    CompareOrder,
    CompareReport,
    CompareResult,
    GroupDiffers,
    RowsDiffer,
    SideFound,
    common_time,
    judge_comparison,
    not_made,
)
from airflow_streaming.model.records.cutover import CompareTerms
from airflow_streaming.model.uris import to_hadoop


class Absent(Exception):
    """
    There is no output to read.

    :param exists: A place is there, and it has no row yet.
    """

    def __init__(self, *, exists: bool) -> None:
        super().__init__("There is no output.")
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


_TIMES: Final = frozenset({"timestamp", "timestamp_ntz", "date", "string"})
_EXACT: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATING: Final = frozenset({"float", "double"})


class Unfit(Exception):
    """The terms cannot be applied to the outputs; the message says why."""


class Measured(NamedTuple):
    """
    A column that is summed.

    :param name: As the terms name it.
    :param exact: Its sums are exact; those of floating numbers depend on the order of rows.
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

    :raises Unfit: the column is none of the two's, or is no time.
    """
    return not terms.time or _fits(blue, green, terms.time, _TIMES, "bucket by", "a time")


def usable_keys(blue: Any, green: Any, terms: CompareTerms) -> list[str]:
    """
    Return the key columns that both sides have; one that is missing is reported as a difference.

    :raises Unfit: neither side has one of them.
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
        raise Unfit(f"Neither output has a column {name!r} to {use}. Name one that they have.")
    raise Unfit(
        f"Column {name!r} is {types[0] or 'missing'} in blue and {types[1] or 'missing'} in green; "
        f"to {use} it must be {what}."
    )


def _is_number(name: str) -> bool:
    return name in _EXACT or name in _FLOATING or name.startswith("decimal")


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


NOISE: Final = 1e-9
"""Sums of floating numbers depend on the order of rows; this share of what was added up is noise."""
_MOST_TEXT: Final = 200
"""Characters of a key's value that are shown."""


class Groups(NamedTuple):
    """How many buckets and keys there are, how many of them differ, and the first of those."""

    all: int
    differing: int
    named: tuple[GroupDiffers, ...]


def compare_groups(
    blue: Any, green: Any, terms: CompareTerms, keys: Sequence[str], sums: Sequence[Measured]
) -> Groups:
    """
    Compare two sides by bucket and key.

    :param blue: Its rows of the common time, with their moment.
    :param keys: Columns that both have.
    :param sums: Columns that are numbers in both.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    same = [type_of(blue, key) == type_of(green, key) for key in keys]
    sides = [
        _side(rows, terms, list(zip(keys, same, strict=True)), sums).withColumn("blue", F.lit(mine))
        for rows, mine in ((blue, True), (green, False))
    ]
    by = ["bucket", *(f"k{n}" for n in range(len(keys)))]
    found = sides[0].unionByName(sides[1]).groupBy(*by).agg(*_figures(sums))
    found = found.withColumn("differs", _differs(sums, terms.tolerance))
    # What is found once is asked twice, and may be as large as the number of keys.
    found = found.persist(StorageLevel.DISK_ONLY)
    try:
        counts = {row[0]: row[1] for row in found.groupBy("differs").count().collect()}
        differing = counts.get(True, 0)
        first = found.where("differs").orderBy(*by).limit(MOST_NAMED).collect() if differing else []
    finally:
        found.unpersist()
    named = [one for row in first for one in _named(row, keys, sums, terms.tolerance)]
    return Groups(sum(counts.values()), differing, tuple(named[:MOST_NAMED]))


def _side(
    rows: Any, terms: CompareTerms, keys: Sequence[tuple[str, bool]], sums: Sequence[Measured]
) -> Any:
    from pyspark.sql import functions as F

    length = max(1, terms.bucket // timedelta(microseconds=1))
    bucket = F.col(MOMENT) - F.pmod(F.col(MOMENT), F.lit(length))
    columns = [bucket.alias("bucket")]
    for n, (key, same) in enumerate(keys):
        columns.append((F.col(key) if same else F.col(key).cast("string")).alias(f"k{n}"))
    for n, column in enumerate(sums):
        value = F.col(column.name)
        whole = type_of(rows, column.name)
        if not column.exact:
            value = value.cast("double")
        elif not whole.startswith("decimal"):
            # A sum of large whole numbers does not fit their own type.
            value = value.cast("decimal(20,0)")
        columns.append(value.alias(f"v{n}"))
    return rows.select(*columns)


def _figures(sums: Sequence[Measured]) -> Iterator[Any]:
    from pyspark.sql import functions as F

    for side, mine in (("b", F.col("blue")), ("g", ~F.col("blue"))):
        yield F.count(F.when(mine, F.lit(1))).alias(f"{side}_rows")
        for n, column in enumerate(sums):
            value = F.when(mine, F.col(f"v{n}"))
            yield F.sum(value).alias(f"{side}{n}")
            if not column.exact:
                yield F.sum(F.abs(value)).alias(f"{side}{n}_size")


def _differs(sums: Sequence[Measured], tolerance: float) -> Any:
    from pyspark.sql import functions as F

    differs = F.col("b_rows") != F.col("g_rows")
    for n, column in enumerate(sums):
        differs = differs | ~_alike(n, column, tolerance)
    return differs


def _alike(n: int, column: Measured, tolerance: float) -> Any:
    from pyspark.sql import functions as F

    blue, green = F.col(f"b{n}"), F.col(f"g{n}")
    alike = blue.eqNullSafe(green)
    allowed = F.lit(0.0)
    one, other = blue.cast("double"), green.cast("double")
    if tolerance:
        allowed = F.lit(tolerance) * F.greatest(F.abs(one), F.abs(other))
    if not column.exact:
        noise = F.lit(NOISE) * (F.col(f"b{n}_size") + F.col(f"g{n}_size"))
        allowed = F.greatest(allowed, noise)
    elif not tolerance:
        return alike
    # Not a number is as large as any number to Spark, and no difference from it is small.
    near = ~F.isnan(one) & ~F.isnan(other) & (F.abs(one - other) <= allowed)
    return alike | F.coalesce(near, F.lit(False))


def _named(
    row: Any, keys: Sequence[str], sums: Sequence[Measured], tolerance: float
) -> Iterator[GroupDiffers]:
    bucket = "" if row["bucket"] is None else format_time(moment_of(row["bucket"]))
    key = {name: _text(row[f"k{n}"]) for n, name in enumerate(keys)}
    if row["b_rows"] != row["g_rows"]:
        told = str(row["b_rows"]), str(row["g_rows"])
        yield GroupDiffers(bucket=bucket, key=key, what="rows", blue=told[0], green=told[1])
    if not (row["b_rows"] and row["g_rows"]):
        return
    for n, column in enumerate(sums):
        if not _is_near(row, n, column, tolerance):
            blue, green = _figure(row[f"b{n}"]), _figure(row[f"g{n}"])
            what = f"sum of {column.name}"
            yield GroupDiffers(bucket=bucket, key=key, what=what, blue=blue, green=green)


def _is_near(row: Any, n: int, column: Measured, tolerance: float) -> bool:
    blue, green = row[f"b{n}"], row[f"g{n}"]
    if blue is None or green is None:
        return blue is None and green is None
    if blue == green or (math.isnan(blue) and math.isnan(green)):
        return True
    noise = 0.0 if column.exact else NOISE * (row[f"b{n}_size"] + row[f"g{n}_size"])
    allowed = max(tolerance * max(abs(float(blue)), abs(float(green))), noise)
    return abs(float(blue) - float(green)) <= allowed and bool(allowed)


def _figure(value: Any) -> str:
    return "" if value is None else str(value)


def _text(value: Any) -> str:
    return "null" if value is None else str(value)[:_MOST_TEXT]


_SAMPLE: Final = 10
_MOST_ROW_TEXT: Final = 500
_BUCKET_BITS: Final = 16
_MOST_BUCKETS: Final = 4096
"""Where more buckets differ every row is counted: to leave some out would spare little."""
_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def compare_rows(blue: Any, green: Any, terms: CompareTerms) -> RowsDiffer:
    """Count the rows that one side has more often, by the columns that both have."""
    from pyspark.sql import functions as F

    names = [name for name in blue.columns if name in green.columns and _is_compared(name, terms)]
    text = F.to_json(F.struct(*(_quoted(name) for name in names)), _JSON)
    sides = [
        rows.select(text.alias("row")).withColumn("more", F.lit(sign))
        for rows, sign in ((blue, 1), (green, -1))
    ]
    both = sides[0].unionByName(sides[1])
    bucket = F.shiftrightunsigned(F.xxhash64("row"), 64 - _BUCKET_BITS)
    differing = _buckets_that_differ(both, bucket)
    if not differing:
        return RowsDiffer(blue=0, green=0)
    if len(differing) <= _MOST_BUCKETS:
        both = both.where(bucket.isin(differing))
    return _counted(both)


def _buckets_that_differ(both: Any, bucket: Any) -> list[int]:
    from pyspark.sql import functions as F

    # Added up by halves no sum is too large for its type.
    hashed = F.xxhash64("row")
    low, high = hashed.bitwiseAND(0xFFFFFFFF), F.shiftright(hashed, 32)
    sums = [F.sum(part * F.col("more")) for part in (F.lit(1), low, high)]
    named = [total.alias(name) for total, name in zip(sums, "nlh", strict=True)]
    found = both.groupBy(bucket.alias("bucket")).agg(*named)
    return [row[0] for row in found.where("n <> 0 or l <> 0 or h <> 0").select("bucket").collect()]


def _counted(both: Any) -> RowsDiffer:
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    found = both.groupBy("row").agg(F.sum("more").alias("more")).where("more <> 0")
    found = found.persist(StorageLevel.DISK_ONLY)
    try:
        told = found.agg(
            F.sum(F.when(F.col("more") > 0, F.col("more"))),
            F.sum(F.when(F.col("more") < 0, -F.col("more"))),
        ).first()
        sample = found.orderBy("row").limit(_SAMPLE).collect() if any(told) else []
    finally:
        found.unpersist()
    return RowsDiffer(
        blue=told[0] or 0,
        green=told[1] or 0,
        sample=tuple(
            f"{'blue' if row['more'] > 0 else 'green'}: {row['row'][:_MOST_ROW_TEXT]}"
            for row in sample
        ),
    )


def _is_compared(name: str, terms: CompareTerms) -> bool:
    return name not in terms.ignore and not name.startswith("__")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


TRIES: Final = 3
"""Times an output is read whose files are replaced meanwhile."""
LOOKS: Final = 3
"""Looks at outputs that differ where rows may be in flight."""
PAUSE: Final = 5.0
"""Seconds between them."""


def run(arguments: Sequence[str]) -> int:
    """Do what the order says and end the process."""
    log_to_stderr()
    order = CompareOrder.from_bytes(Path(arguments[0]).read_bytes())
    if order.held:
        leave_with_caller(order.held, order.scratch)
    leave_after(order.seconds, "The comparison")
    session = _session()
    for asked in order.asked:
        report = Comparison(session, asked).report()
        with Path(order.reports).open("ab") as file:
            file.write(report.to_bytes())
    return 0


class Comparison:
    """
    One comparison.

    :param session: Spark's session; see ``fitted`` for the settings that it needs.
    :param sleep: Waits so many seconds.
    """

    def __init__(
        self, session: Any, asked: Asked, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._session, self._asked, self._sleep = session, asked, sleep

    def report(self) -> CompareReport:
        """Compare, and report the result; errors are part of the report."""
        begun = time.monotonic()
        report = self._look(None)
        for _ in range(LOOKS - 1):
            if not self._may_be_in_flight(report):
                break
            self._sleep(PAUSE)
            before, common = report, CommonTime(begin=report.common_from, end=report.common_until)
            report = self._look(common)
            note = f"A look {PAUSE:.0f} s before this one found differences."
            report = replace(report, notes=(*report.notes, note))
            if _rows(report) == _rows(before):
                break
        seconds = round(time.monotonic() - begun, 3)
        return replace(report, seconds=seconds, spark=str(self._session.version))

    def _may_be_in_flight(self, report: CompareReport) -> bool:
        # Where the end of the time is guessed from the last rows, a batch that is just being put in
        # its place can be there in part. What differs for another reason does so again.
        bound = self._asked.bound
        is_known = bound.until is not None or (bound.blue is not None and bound.green is not None)
        return report.result is CompareResult.DIFFERS and not report.columns and not is_known

    def _look(self, common: CommonTime | None) -> CompareReport:
        report = self._tried(datetime.now(UTC), common)
        if report.error:
            return report
        return judge_comparison(report, self._asked.terms, self._asked.bound)

    def _tried(self, at: datetime, common: CommonTime | None) -> CompareReport:
        for attempt in range(1, TRIES + 1):
            try:
                return self._measured(at, common)
            except Unfit as err:
                return not_made(self._asked, str(err), at=at, refused=True)
            except Exception as err:  # noqa: BLE001 - an error of measuring says nothing of green
                if attempt < TRIES and was_replaced(err):
                    logger.warning("Files were replaced while they were read; reading once more.")
                    continue
                told = sentence_of(error_of(err))
                return not_made(self._asked, f"The outputs could not be compared: {told}", at=at)
        raise AssertionError  # the last attempt has returned

    def _measured(self, at: datetime, common: CommonTime | None) -> CompareReport:
        asked = self._asked
        blue, blue_found = self._opened(asked.blue)
        green, green_found = self._opened(asked.green)
        empty = CompareReport(
            stream=asked.terms.stream,
            result=CompareResult.INCONCLUSIVE,
            reason="",
            at=at,
            blue=blue_found,
            green=green_found,
        )
        if blue is None and green is None:
            return empty
        # A side that is not there yet has no rows, and the other one's columns.
        none = (green if blue is None else blue).limit(0)
        blue, green = none if blue is None else blue, none if green is None else green
        return _figured(empty, blue, green, asked, common)

    def _opened(self, uri: str) -> tuple[Any, SideFound]:
        try:
            return open_output(self._session, uri, self._asked.terms), SideFound(uri=uri)
        except Absent as absent:
            return None, SideFound(uri=uri, exists=absent.exists)


def _rows(report: CompareReport) -> tuple[int, int]:
    return report.blue.rows, report.green.rows


def _figured(
    report: CompareReport, blue: Any, green: Any, asked: Asked, common: CommonTime | None
) -> CompareReport:
    terms = asked.terms
    columns = tuple(columns_that_differ(blue, green, terms))
    report = replace(report, columns=columns)
    keys, sums = usable_keys(blue, green, terms), usable_sums(blue, green, terms)
    if not check_time(blue, green, terms):
        # No time to cut both by; that difference is reported and outweighs everything else.
        return replace(
            report,
            blue=replace(report.blue, rows=blue.count()),
            green=replace(report.green, rows=green.count()),
        )
    blue, green = with_moment(blue, terms.time), with_moment(green, terms.time)
    found = spans_of(blue, green, (report.blue, report.green))
    common = common or common_time(terms, asked.bound, *found)
    found = split(blue, green, found, common)
    report = replace(
        report,
        blue=found[0],
        green=found[1],
        common_from=common.begin,
        common_until=common.end,
    )
    blue, green = within(blue, common), within(green, common)
    groups = compare_groups(blue, green, terms, keys, sums)
    return replace(
        report,
        groups=groups.all,
        differing=groups.differing,
        differences=groups.named,
        full=compare_rows(blue, green, terms) if terms.full else None,
    )


def _session() -> Any:
    from pyspark.sql import SparkSession

    return fitted(SparkSession.builder.appName("airflow-streaming comparison").getOrCreate())


def fitted(session: Any) -> Any:
    """Return a session with the settings of a comparison."""
    # Times are compared as instants, and a sum that does not fit is an error, never a null.
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.shuffle.partitions", "16")
    return session
