"""The difference of the schemas in Delta's messages."""

from __future__ import annotations

import json

import pytest

from airflow_streaming.driver.monitoring.spark_query import QueryError
from airflow_streaming.model.plan.schema_change import SchemaColumn, difference, schema_change
from airflow_streaming.model.spark.failure_signs import FailureClass, FailureKind
from airflow_streaming.model.spark.failures import diagnose


def struct(*fields: tuple[str, str, int]) -> str:
    return json.dumps(
        {
            "type": "struct",
            "fields": [
                {
                    "name": name,
                    "type": kind,
                    "nullable": True,
                    "metadata": {"delta.columnMapping.id": number},
                }
                for name, kind, number in fields
            ],
        }
    )


RENAMED = (
    "[DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG] Streaming read is not supported on tables with "
    "read-incompatible schema changes (e.g. rename or drop or datatype changes).\n\n"
    "Please provide a 'schemaTrackingLocation'.\n"
    f"Read schema: {struct(('number', 'integer', 1), ('letter', 'string', 2))}.\n \n"
    f"Incompatible data schema: {struct(('id_number', 'integer', 1), ('letter', 'string', 2))}.\n"
)
ADDED = """[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 7:
streaming source schema: root
 |-- id: integer (nullable = true)
 |-- name: string (nullable = true)
 |-- old: double (nullable = true)

data file schema: root
 |-- id: long (nullable = true)
 |-- name: string (nullable = true)
 |-- address: struct (nullable = true)
 |    |-- city: string (nullable = true)

Please try restarting the query. If this issue repeats across query restarts without
making progress, you have made an incompatible schema change.
"""
UPDATED = """The schema or metadata tracking log has been updated.
Please restart the stream to continue processing using the updated metadata.
Updated schema: root
-- number: integer (nullable = true)
-- letter2: string (nullable = true)
.
Updated table protocol: 2,5
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(RENAMED, "column number is called id_number now", id="JSON with ids"),
        pytest.param(
            ADDED,
            "column address struct was added; column old double was removed; column id is bigint, it was int",
            id="trees",
        ),
        pytest.param(UPDATED, "its columns are now number int, letter2 string", id="one tree"),
        pytest.param("Detected schema change", "", id="no schema"),
        pytest.param('{"type":"struct", broken', "", id="torn JSON"),
    ],
)
def test_the_difference_of_the_schemas_in_a_message(text: str, words: str) -> None:
    assert schema_change(text) == words


def test_a_long_difference_is_counted() -> None:
    new = tuple(SchemaColumn(f"c{number}", "int") for number in range(13))
    assert difference((), new).endswith("column c9 int was added; and 3 more")
    assert difference(new, new) == ""


def test_a_renamed_column_that_is_an_old_name_is_no_rename() -> None:
    old = (SchemaColumn("a", "int", 1), SchemaColumn("b", "int", 2))
    assert difference(old, (SchemaColumn("b", "int", 1),)) == "column a int was removed"


@pytest.mark.parametrize(
    ("text", "kind", "restarts"),
    [
        pytest.param(ADDED, FailureKind.SCHEMA_CHANGED, True, id="Delta asks for a restart"),
        pytest.param(UPDATED, FailureKind.SCHEMA_CHANGED, True, id="its schema log was updated"),
        pytest.param(RENAMED, FailureKind.INCOMPATIBLE, False, id="it cannot be read further"),
        pytest.param(
            "org.apache.avro.AvroTypeException: Found long, expecting string",
            *(FailureKind.SCHEMA_CHANGED, True),
            id="Avro",
        ),
    ],
)
def test_a_change_of_the_schema_is_a_kind_of_its_own(
    text: str, kind: FailureKind, restarts: bool
) -> None:
    found = diagnose(text=text)
    assert found.kind is kind
    assert (kind.restart_class is FailureClass.APPLICATION) is restarts
    assert found.remedy


def test_the_difference_is_in_the_reason_of_the_failure() -> None:
    error = QueryError.from_text(ADDED, exception_class="DeltaIllegalStateException")
    assert error.message.startswith(
        "The schema of a source has changed: column address struct was added;"
    )
    assert "Detected schema change in version 7" in error.message
    renamed = QueryError.from_text(RENAMED, exception_class="DeltaStreamingException")
    assert "column number is called id_number now" in renamed.message
