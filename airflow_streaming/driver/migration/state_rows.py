"""
State as DataFrames: rows of an operator, and the bytes that Spark's state stores keep of them.

A store keeps a key and a value as ``UnsafeRow`` bytes. Spark has no function for these bytes, so they are read by
an expression of Catalyst. A column of a struct type is such a row behind a shuffle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_ROW: Final = "org.apache.spark.sql.catalyst.expressions.UnsafeRow"
_HOLDER: Final = "scala.Tuple1"
BATCH: Final = "batchId"


def read_state(session: Any, checkpoint: str, batch: int, operator: int) -> Any:
    """Return the rows of an operator's default store after a batch: ``partition_id``, ``key``, ``value``."""
    reader = session.read.format("statestore").option(BATCH, str(batch))
    return reader.option("operatorId", str(operator)).load(checkpoint)


def by_place(rows: Any) -> Any:
    """
    Return rows with the columns ``k0``, ``k1``... in the key and ``v0``, ``v1``... in the value.

    The names of state columns are not unique: two sums are both called ``sum``.
    """
    from pyspark.sql import functions as F

    def renamed(side: str) -> Any:
        return F.col(side).cast(numbered(rows.schema[side].dataType, side[0])).alias(side)

    return rows.select("partition_id", renamed("key"), renamed("value"))


def numbered(struct: Any, letter: str) -> Any:
    """Return a struct type with its fields named by their places."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(f"{letter}{place}", field.dataType) for place, field in enumerate(struct)]
    )


def row_bytes(session: Any, column: Any) -> Any:
    """Return the bytes of a struct column, whose rows must come straight from a shuffle."""
    from pyspark.sql.classic.column import Column

    jvm = session._jvm
    utilities = singleton(jvm, "org.apache.spark.sql.classic.ExpressionUtils")
    objects = "org.apache.spark.sql.catalyst.expressions.objects"
    held = singleton(jvm, f"{objects}.NewInstance").apply(
        _class(jvm, _HOLDER),
        seq(jvm, [utilities.expression(column._jc)]),
        _object_type(jvm, _HOLDER),
        False,
    )
    # A struct has Spark's general type of rows; the way through the holder casts it to its real one.
    row = _invoke(jvm, held, "_1", _object_type(jvm, _ROW))
    binary = singleton(jvm, "org.apache.spark.sql.types.BinaryType")
    return Column(utilities.column(_invoke(jvm, row, "getBytes", binary)))


def singleton(jvm: Any, name: str) -> Any:
    """Return an object of Scala."""
    return getattr(getattr(jvm, f"{name}$"), "MODULE$")


def seq(jvm: Any, items: Sequence[Any]) -> Any:
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(items))


def _invoke(jvm: Any, target: Any, method: str, result: Any) -> Any:
    invoke = jvm.org.apache.spark.sql.catalyst.expressions.objects.Invoke
    return invoke(target, method, result, seq(jvm, []), seq(jvm, []), False, False, True)


def _class(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name)


def _object_type(jvm: Any, name: str) -> Any:
    return jvm.org.apache.spark.sql.types.ObjectType(_class(jvm, name))
