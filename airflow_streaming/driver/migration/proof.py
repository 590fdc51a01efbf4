"""
Invariants of a migrated operator: the state that was written, read back and compared with the old state.

Digests are sums of a hash of every row, so that the order of rows does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from airflow_streaming.model.jobs.migration import (
    Merge,
    Move,
    OperatorMigration,
    OperatorProof,
    StateColumn,
)

_EXACT: Final = "decimal(38,0)"
_CLOSE: Final = 1e-9
"""Relative difference of two sums of floating-point numbers in another order."""


def proved(
    one: OperatorMigration, old: Any, now: Any, *, before: int, partitions: int
) -> OperatorProof:
    """
    Compare the state of an operator before and after its migration.

    :param old: Old rows with columns by place; ``now`` likewise the new ones.
    """
    after = int(now.count())
    problems = list(_problems(one, old, now, before, after, partitions))
    return OperatorProof(
        operator=one.operator, before=before, after=after, problems=tuple(problems)
    )


def _problems(
    one: OperatorMigration, old: Any, now: Any, before: int, after: int, partitions: int
) -> Iterator[str]:
    for which, rows in (("old", old), ("new", now)):
        elsewhere = rows_elsewhere(rows, partitions)
        if elsewhere:
            yield f"{elsewhere} {which} rows are not in the partition of their key's hash; expected 0."
    expected = _keys(old, one).distinct().count() if one.is_merged else before
    if after != expected:
        yield f"{after} rows were written; expected {expected}."
    for what, was, holds in _sums(one, old, now):
        if not _equal(was, holds):
            yield f"{what}: the old state gives {was}, the new state {holds}; expected equal values."


def rows_elsewhere(rows: Any, partitions: int) -> int:
    """Return how many rows are not in the partition in which a query would look for their key."""
    from pyspark.sql import functions as F

    keys = [F.col(f"key.{name}") for name in rows.schema["key"].dataType.names]
    place = F.pmod(F.hash(*keys), F.lit(partitions))
    return int(rows.where(F.col("partition_id") != place).count())


def _keys(old: Any, one: OperatorMigration) -> Any:
    from pyspark.sql import functions as F

    columns = [
        F.col(f"key.k{column.source}").cast(column.type)
        if column.move is Move.WIDEN
        else F.col(f"key.k{column.source}")
        for column in one.key
        if column.source is not None
    ]
    return old.select(*columns)


def _sums(one: OperatorMigration, old: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield figures that old and new rows must agree on."""
    if one.is_merged:
        yield from _merged_sums(one, old, now)
    else:
        yield from _kept_sums(one, old, now)
        yield from _added_sums(one, now)


def _merged_sums(one: OperatorMigration, old: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    for place, column in enumerate(one.value):
        if column.merge is not None and column.source is not None:
            was = old.agg(_whole(column, f"value.v{column.source}")).first()[0]
            yield column.name, was, now.agg(_whole(column, f"value.v{place}")).first()[0]
    keys = _keys(old, one).distinct()
    yield "keys", _digest(keys, keys.columns), _digest(now, _new_keys(one))


def _kept_sums(one: OperatorMigration, old: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    from pyspark.sql import functions as F

    was, holds = [], []
    for name, place, column in _placed(one):
        if column.source is not None:
            source = F.col(f"{name}{column.source}")
            was.append(source.cast(column.type) if column.move is Move.WIDEN else source)
            holds.append(F.col(f"{name}{place}"))
    yield "kept columns", _digest(old, was), _digest(now, holds)


def _added_sums(one: OperatorMigration, now: Any) -> Iterator[tuple[str, Any, Any]]:
    from pyspark.sql import functions as F

    for name, place, column in _placed(one):
        if column.source is None and column.move is Move.ADD:
            initial = F.expr(str(column.initial)).cast(column.type)
            other = now.where(~F.col(f"{name}{place}").eqNullSafe(initial)).count()
            yield f"rows of {column.name} with another initial value", 0, other


def _placed(one: OperatorMigration) -> Iterator[tuple[str, int, StateColumn]]:
    """Yield each column of the new state with the name of columns by place on its side, and its place."""
    for name, columns in (("key.k", one.key), ("value.v", one.value)):
        for place, column in enumerate(columns):
            yield name, place, column


def _new_keys(one: OperatorMigration) -> list[Any]:
    from pyspark.sql import functions as F

    return [
        F.col(f"key.k{place}") for place, column in enumerate(one.key) if column.source is not None
    ]


def _digest(rows: Any, columns: list[Any]) -> Any:
    from pyspark.sql import functions as F

    return rows.agg(F.sum(F.xxhash64(*columns).cast(_EXACT))).first()[0] if columns else None


def _whole(column: StateColumn, name: str) -> Any:
    from pyspark.sql import functions as F

    function = F.sum if column.merge is Merge.SUM else getattr(F, str(column.merge))
    return function(F.col(name))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _CLOSE * max(abs(one), abs(other), 1.0)
    return bool(one == other)
