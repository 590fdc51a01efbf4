"""Columns and types, in Spark's short names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_SHORT: Final = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_LONG: Final = {short: long for long, short in _SHORT.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """
    A column with its type.

    :param type: Spark's short name of the type, e.g. ``bigint`` or ``struct<a:int>``.
    """

    name: str
    type: str
    nullable: bool = True


def type_name(json_type: Any) -> str:
    """Return the short name of a type, e.g. ``bigint`` or ``struct<a:int>``; ``?`` for no type."""
    if isinstance(json_type, str):
        return _SHORT.get(json_type, json_type)
    if not isinstance(json_type, Mapping):
        return "?"
    match json_type.get("type"):
        case "struct":
            fields = (f"{name}:{type_name(of)}" for name, of, _ in _fields(json_type))
            return f"struct<{','.join(fields)}>"
        case "array":
            return f"array<{type_name(json_type.get('elementType'))}>"
        case "map":
            return f"map<{type_name(json_type.get('keyType'))},{type_name(json_type.get('valueType'))}>"
        case "udt":
            return type_name(json_type.get("sqlType"))
        case other:
            return type_name(other) if isinstance(other, str) else "?"


def json_type(short: str) -> Any:
    """Return Spark's JSON of a type from its short name; every field of a struct accepts nulls."""
    text = short.strip()
    if text.startswith("struct<"):
        fields = [field_json(field.name, json_type(field.type)) for field in fields_of(text)]
        return {"type": "struct", "fields": fields}
    kind, _, inside = text.partition("<")
    parts = [field.type for field in fields_of(f"struct<{_named(inside.removesuffix('>'))}>")]
    if kind == "array" and len(parts) == 1:
        return {"type": "array", "elementType": json_type(parts[0]), "containsNull": True}
    if kind == "map" and len(parts) == 2:
        key, value = map(json_type, parts)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    return _LONG.get(text, text)


def field_json(name: str, json_type: Any, metadata: Mapping[str, Any] | None = None) -> Any:
    """Return Spark's JSON of a field that accepts nulls."""
    return {"name": name, "type": json_type, "nullable": True, "metadata": dict(metadata or {})}


def _named(types: str) -> str:
    """Give a name to each type of a list."""
    found, depth = ["_:"], 0
    for letter in types:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        found.append(",_:" if letter == "," and depth == 0 else letter)
    return "".join(found)


def columns_of(struct: Any) -> tuple[Column, ...]:
    """Return the columns of a struct type; none for any other type."""
    return tuple(
        Column(name=name, type=type_name(of), nullable=nullable)
        for name, of, nullable in _fields(struct)
    )


def column_texts(columns: Iterable[Column]) -> str:
    """Return columns as people write them, e.g. ``k string, n bigint``."""
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def fields_of(struct: str) -> tuple[Column, ...]:
    """Return the fields of the short name of a struct, e.g. ``struct<a:int,b:array<int>>``."""
    inside = struct.removeprefix("struct<").removesuffix(">")
    if inside == struct:
        return ()
    found, depth, begin = [], 0, 0
    for place, letter in enumerate(f"{inside},"):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            name, _, of = inside[begin:place].partition(":")
            found.append(Column(name=name.strip(), type=of.strip()))
            begin = place + 1
    return tuple(found)


def _fields(struct: Any) -> list[tuple[str, Any, bool]]:
    fields = struct.get("fields") if isinstance(struct, Mapping) else None
    if not isinstance(fields, list):
        return []
    return [
        (str(one.get("name")), one.get("type"), one.get("nullable") is not False)
        for one in fields
        if isinstance(one, Mapping)
    ]
