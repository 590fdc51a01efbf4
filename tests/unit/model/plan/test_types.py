from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.model.plan.schema import Column, columns_of, ddl, type_name

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
    assert ddl(STRUCT) == "a int, b array<bigint>"


@pytest.mark.parametrize("told", [None, "long", {"fields": "x"}, {"fields": [1]}])
def test_what_is_no_struct_has_no_columns(told: Any) -> None:
    assert columns_of(told) == ()
