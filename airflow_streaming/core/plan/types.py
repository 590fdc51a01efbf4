"""Spark's types, from the JSON that Spark writes of them to the short names people know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.core.plan.plan import Column

_SHORT: Final = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def type_name(told: Any) -> str:
    """Return the short name of a type, e.g. ``bigint`` or ``struct<a:int>``; ``?`` for no type."""
    if isinstance(told, str):
        return _SHORT.get(told, told)
    if not isinstance(told, Mapping):
        return "?"
    match told.get("type"):
        case "struct":
            fields = (f"{name}:{type_name(of)}" for name, of, _ in _fields(told))
            return f"struct<{','.join(fields)}>"
        case "array":
            return f"array<{type_name(told.get('elementType'))}>"
        case "map":
            return f"map<{type_name(told.get('keyType'))},{type_name(told.get('valueType'))}>"
        case "udt":
            return type_name(told.get("sqlType"))
        case other:
            return type_name(other) if isinstance(other, str) else "?"


def columns_of(struct: Any) -> tuple[Column, ...]:
    """Return the columns of a struct type; none for any other type."""
    return tuple(
        Column(name=name, type=type_name(of), nullable=nullable)
        for name, of, nullable in _fields(struct)
    )


def ddl(struct: Any) -> str:
    """Return a struct type as people write it, e.g. ``k string, n bigint``."""
    return ", ".join(f"{column.name} {column.type}" for column in columns_of(struct))


def _fields(struct: Any) -> list[tuple[str, Any, bool]]:
    fields = struct.get("fields") if isinstance(struct, Mapping) else None
    if not isinstance(fields, list):
        return []
    return [
        (str(one.get("name")), one.get("type"), one.get("nullable") is not False)
        for one in fields
        if isinstance(one, Mapping)
    ]
