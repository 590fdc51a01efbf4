"""
Every row of two outputs against each other, however often each comes.

A row is compared as the text of its columns, so that columns of any type can be. First its hash
alone: hashes are counted and added up in 65,536 buckets, which moves no rows about. Only what is in
buckets that differ is then counted row by row, both sides together; a row that both have as often as
each other cancels out. That a difference hides from a bucket's sums takes a chance of 1 in 2^64.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_streaming.core.cutover.comparing.report import RowsDiffer
from airflow_streaming.core.cutover.terms import CompareTerms

_SAMPLE: Final = 10
_MOST_TEXT: Final = 500
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
            f"{'blue' if row['more'] > 0 else 'green'}: {row['row'][:_MOST_TEXT]}" for row in sample
        ),
    )


def _is_compared(name: str, terms: CompareTerms) -> bool:
    return name not in terms.ignore and not name.startswith("__")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
