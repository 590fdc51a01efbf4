"""
Where the rows of two outputs differ, by figures for each key and row by row.

Both sides are united and aggregated together, so a key that one side lacks, or that is null, needs
no join. Spark spills to disk, so memory is bounded.

A row is compared as the text of its columns, which works for every type. First its hash is counted
and added up in 65,536 buckets, without a shuffle of rows. Only rows of buckets that differ are then
counted one by one, both sides together; rows that both sides have equally often cancel out. A
difference stays hidden in a bucket's sums with a probability of 1 in 2^64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.jobs.compare_columns import MOMENT, Measured, moment_of, type_of
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.codec import format_time
from airflow_streaming.model.jobs.comparison import MOST_NAMED, GroupDiffers, RowsDiffer

NOISE: Final = 1e-9
"""Share of the summed values that counts as noise: sums of floats depend on the order of rows."""
_MOST_TEXT: Final = 200
"""Maximum number of characters of a key's value in a report."""

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
    # Persisted because it is read twice and may be as large as the number of keys.
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
