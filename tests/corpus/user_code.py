"""Failures of the user's own code and of expressions over rows."""

from __future__ import annotations

from typing import Any

from airflow_streaming.model.spark.failure_signs import FailureKind
from tests.corpus.stage import Stage, add, scenario

ANSI = {"spark.sql.ansi.enabled": "true"}


class PriceError(Exception):
    """An error of the user's own."""


def _raise(error: Exception) -> Any:
    def batch(frame: Any, number: int) -> None:
        raise error

    return batch


def _subscript(frame: Any, number: int) -> None:
    {"price": 1}["amount"]


def _chained(frame: Any, number: int) -> None:
    try:
        {}["amount"]
    except KeyError as err:
        raise PriceError("The row has no amount.") from err


def _unresolved(frame: Any, number: int) -> None:
    frame.select("no_such_column").collect()


def _no_table(frame: Any, number: int) -> None:
    frame.sparkSession.table("no_such_table").collect()


def _cast_in_batch(frame: Any, number: int) -> None:
    frame.selectExpr("cast(k as int)").collect()


def _udf_in_batch(frame: Any, number: int) -> None:
    from pyspark.sql import functions as f

    frame.select(f.udf(lambda key: 1 // 0, "long")("k")).collect()


for _name, _batch in {
    "batch_function_key_error": _subscript,
    "batch_function_zero_division": lambda frame, number: 1 // 0,
    "batch_function_own_exception": _raise(PriceError("Row 17 has no price.")),
    "batch_function_chained_exception": _chained,
    "batch_function_assertion": _raise(AssertionError("No more than 100 rows.")),
    "batch_function_type_error": lambda frame, number: "1" + number,
    "batch_function_wrong_arguments": lambda frame: None,
    "batch_function_unresolved_column": _unresolved,
    "batch_function_no_such_table": _no_table,
    "batch_function_udf_raises": _udf_in_batch,
}.items():
    add(
        _name,
        FailureKind.USER_CODE,
        lambda stage, batch=_batch: stage.start(stage.rows(), batch=batch),
    )


@scenario(FailureKind.USER_CODE)
def batch_function_bad_cast(stage: Stage) -> Any:
    return stage.with_conf(ANSI, lambda: stage.start(stage.rows(), batch=_cast_in_batch))


def _key_error_on_c(key: str) -> int:
    return {"a": 1, "b": 2}[key]


@scenario(FailureKind.USER_CODE)
def udf_key_error(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    return stage.start(stage.rows().select(f.udf(_key_error_on_c, "long")("k")))


@scenario(FailureKind.USER_CODE)
def udf_value_error(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    return stage.start(stage.rows().select(f.udf(lambda key: int(key), "long")("k")))


@scenario(FailureKind.USER_CODE)
def udf_returns_what_cannot_be_converted(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    return stage.start(stage.rows().select(f.udf(lambda key: PriceError(key), "string")("k")))


@scenario(FailureKind.USER_CODE)
def row_writer_raises(stage: Stage) -> Any:
    def write(row: Any) -> None:
        raise ValueError(f"Row {row.k} cannot be written.")

    writer = stage.rows().writeStream.queryName("q").trigger(availableNow=True)
    return writer.option("checkpointLocation", str(stage.folder())).foreach(write).start()


for _name, _expression in {
    "row_cast_invalid": "cast(k as int)",
    "row_divide_by_zero": "1 / (v - v)",
    "row_array_index": "array(1, 2)[cast(v as int) + 9]",
    "row_overflow": "9223372036854775807 + v + 1",
    "row_cast_overflow": "cast(v + 9000000000 as int)",
    "row_bad_date": "to_date(k, 'yyyy-MM-dd')",
    "row_raise_error": "raise_error(concat('Key ', k, ' is not allowed'))",
    "row_assertion": "assert_true(v < 0)",
    "row_duplicate_map_key": "map(k, 1, k, 2)",
    "row_json_fail_fast": "from_json(concat('{', k), 'a int', map('mode', 'FAILFAST'))",
}.items():
    add(
        _name,
        FailureKind.USER_CODE,
        lambda stage, expression=_expression: stage.with_conf(
            ANSI, lambda: stage.start(stage.rows().selectExpr(expression))
        ),
    )


@scenario(FailureKind.USER_CODE)
def malformed_input_row(stage: Stage) -> Any:
    folder = stage.folder("malformed")
    folder.mkdir()
    stage.add_file(0, folder)
    (folder / "001.json").write_text('{"k": "a", "v": \n')
    return stage.start(stage.rows(folder, mode="FAILFAST"))


@scenario(FailureKind.USER_CODE)
def script_key_error(stage: Stage) -> Any:
    stage.rows()
    {"price": 1}["amount"]


@scenario(FailureKind.USER_CODE)
def script_session_in_udf(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    spark = stage.spark
    return stage.start(stage.rows().select(f.udf(lambda key: str(spark.range(1)))("k")))
