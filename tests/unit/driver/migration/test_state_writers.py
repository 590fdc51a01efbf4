"""Files of migrated state, as the readers of checkpoints read them."""

from __future__ import annotations

import json

import pytest

from airflow_streaming.checkpoints.read.operators import parse_operator_metadata
from airflow_streaming.checkpoints.read.schemas import parse_state_schema
from airflow_streaming.driver.migration.state_writers import operator_metadata, schema_file
from airflow_streaming.model.plan.schema import field_json


def a_struct(*fields: tuple[str, str]) -> str:
    return json.dumps(
        {"type": "struct", "fields": [field_json(name, type_) for name, type_ in fields]}
    )


@pytest.mark.parametrize("columns", [1, 2, 3000], ids=["one", "two", "more than a chunk"])
def test_a_schema_file_is_read_back(columns: int) -> None:
    value = a_struct(*((f"größe {place}", "long") for place in range(columns)))

    found = parse_state_schema(schema_file(a_struct(("k", "string")), value))

    (family,) = found.families
    assert found.version == 2
    assert [field.name for field in family.key] == ["k"]
    assert [field.name for field in family.value] == [f"größe {p}" for p in range(columns)]
    assert all(field.nullable for field in family.value)


def test_metadata_of_an_operator_are_read_back() -> None:
    found = parse_operator_metadata(operator_metadata(3, "dedupe", 7))

    assert (found.id, found.name) == (3, "dedupe")
    assert [(store.name, store.partitions) for store in found.stores] == [("default", 7)]
