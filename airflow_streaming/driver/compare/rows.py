"""
Every row of two outputs against each other, however often each comes.

A row is compared as the text of its columns, so that columns of any type can be. Both sides are
counted together; a row that both have as often as each other cancels out.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_streaming.core.cutover.comparing.report import RowsDiffer
from airflow_streaming.core.cutover.terms import CompareTerms

_SAMPLE: Final = 10
_MOST_TEXT: Final = 500
_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def compare_rows(blue: Any, green: Any, terms: CompareTerms) -> RowsDiffer:
    """Count the rows that one side has more often, by the columns that both have."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    names = [name for name in blue.columns if name in green.columns and _is_compared(name, terms)]
    sides = [
        rows.select(
            F.to_json(F.struct(*(_quoted(name) for name in names)), _JSON).alias("row")
        ).withColumn("more", F.lit(sign))
        for rows, sign in ((blue, 1), (green, -1))
    ]
    found = sides[0].unionByName(sides[1]).groupBy("row").agg(F.sum("more").alias("more"))
    found = found.where("more <> 0").persist(StorageLevel.DISK_ONLY)
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
