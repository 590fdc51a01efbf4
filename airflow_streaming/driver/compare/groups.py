"""
Counts and sums of two outputs by bucket and key, in one pass over both.

Both sides are put on top of each other and aggregated together, so a key that one side lacks, or
that is null, needs no join, and what Spark holds in memory is bounded: it spills the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from airflow_streaming.core.cutover.comparing.report import MOST_NAMED, GroupDiffers
from airflow_streaming.core.cutover.terms import CompareTerms
from airflow_streaming.core.times import format_time
from airflow_streaming.driver.compare.columns import Measured, type_of
from airflow_streaming.driver.compare.spans import MOMENT, moment_of

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
