from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.model.plan.schema import (
    Column,
    column_texts,
    columns_of,
    fields_of,
    type_name,
)

STRUCT = {
    "type": "struct",
    "fields": [
        {"name": "a", "type": "integer", "nullable": False},
        {"name": "b", "type": {"type": "array", "elementType": "long", "containsNull": True}},
    ],
}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("long", "bigint"),
        ("short", "smallint"),
        ("decimal(10,2)", "decimal(10,2)"),
        (STRUCT, "struct<a:int,b:array<bigint>>"),
        ({"type": "map", "keyType": "string", "valueType": "byte"}, "map<string,tinyint>"),
        ({"type": "udt", "sqlType": "double"}, "double"),
        (None, "?"),
        ({"type": ["not", "a", "type"]}, "?"),
    ],
)
def test_a_type_has_the_short_name_that_people_know(told: Any, expected: str) -> None:
    assert type_name(told) == expected


def test_the_columns_of_a_struct_keep_their_order_and_whether_they_may_be_null() -> None:
    a, b = columns_of(STRUCT)
    assert a == Column(name="a", type="int", nullable=False)
    assert b == Column(name="b", type="array<bigint>")
    assert column_texts(columns_of(STRUCT)) == "a int, b array<bigint>"


@pytest.mark.parametrize("told", [None, "long", {"fields": "x"}, {"fields": [1]}])
def test_what_is_no_struct_has_no_columns(told: Any) -> None:
    assert columns_of(told) == ()


@pytest.mark.parametrize(
    ("struct", "fields"),
    [
        ("struct<a:int,b:array<bigint>>", "a int, b array<bigint>"),
        ("struct<a:decimal(10,2),b:struct<c:int,d:int>>", "a decimal(10,2), b struct<c:int,d:int>"),
        ("int", ""),
        ("", ""),
    ],
)
def test_the_fields_of_a_short_name(struct: str, fields: str) -> None:
    assert column_texts(fields_of(struct)) == fields
