"""
The difference of two schemas in a message about a source whose schema has changed.

Delta prints the schema that the query reads and the schema of the data: as JSON, with the ids of columns where
columns are mapped, or as the tree of ``printSchema``. Its message after an update of its schema log has the new one
only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.model.plan.schema import type_name

_MOST: Final = 100_000
"""Characters of a message that are read."""
_MOST_NAMED: Final = 10
_STRUCT: Final = re.compile(r'\{\s*"type"\s*:\s*"struct"')
_TREE: Final = re.compile(r"root\n((?:\s*(?:\|\s+)*(?:\|)?-- [^\n]+\n?)+)")
_FIELD: Final = re.compile(r"^ ?\|?-- (.+): (\w+(?:\([\d,]+\))?) \(nullable", re.MULTILINE)
_ID: Final = "delta.columnMapping.id"


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column of a source: its name, its type, and its id where the table maps columns."""

    name: str
    type: str
    id: int | None = None


Schema = tuple[SchemaColumn, ...]


def schema_change(text: str) -> str:
    """Return the difference of the schemas in a message, in words; empty without schemas in it."""
    found = list(_schemas(text[:_MOST]))
    if len(found) >= 2:
        return difference(found[0], found[1])
    if found:
        return (
            f"its columns are now {', '.join(f'{one.name} {one.type}' for one in found[0])[:500]}"
        )
    return ""


def difference(old: Schema, new: Schema) -> str:
    """Return how a schema differs from an older one, in words; empty for equal columns."""
    before = {one.name: one for one in old}
    after = {one.name: one for one in new}
    by_id = {one.id: one for one in new if one.id is not None}
    renamed = {
        name: by_id[one.id].name
        for name, one in before.items()
        if name not in after and one.id in by_id and by_id[one.id].name not in before
    }
    parts = [f"column {name} is called {now} now" for name, now in renamed.items()]
    parts += [
        f"column {name} {one.type} was added"
        for name, one in after.items()
        if name not in before and name not in renamed.values()
    ]
    parts += [
        f"column {name} {one.type} was removed"
        for name, one in before.items()
        if name not in after and name not in renamed
    ]
    parts += [
        f"column {name} is {after[name].type}, it was {one.type}"
        for name, one in before.items()
        if name in after and after[name].type != one.type
    ]
    more = len(parts) - _MOST_NAMED
    return "; ".join(parts[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _schemas(text: str) -> Iterator[Schema]:
    decoder, at = json.JSONDecoder(), 0
    # Delta breaks long JSON into lines.
    while (match := _STRUCT.search(text, at)) is not None:
        try:
            parsed, at = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            at = match.end()
            continue
        yield _of_json(parsed)
    for tree in _TREE.finditer(text):
        fields = _FIELD.findall(tree[1])
        yield tuple(SchemaColumn(name, type_name(kind)) for name, kind in fields)


def _of_json(struct: Mapping[str, Any]) -> Schema:
    fields = struct.get("fields")
    return tuple(
        SchemaColumn(str(one.get("name")), type_name(one.get("type")), _id_of(one.get("metadata")))
        for one in (fields if isinstance(fields, list) else [])
        if isinstance(one, Mapping)
    )


def _id_of(metadata: Any) -> int | None:
    found = metadata.get(_ID) if isinstance(metadata, Mapping) else None
    return found if isinstance(found, int) else None
