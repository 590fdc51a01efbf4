"""
State schemas: the columns of an operator's state, as Spark wrote them down with its first batch.

The files are what Java's ``DataOutputStream`` writes: version 1 (Spark 3.1) and 2 have one key and
one value schema, version 3 has one of each for every column family, which is a state variable or a
timer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.checkpoints.read.operators import JavaInput
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.logs import items, json_object, mapping, string

MAX_SCHEMA_BYTES: Final = 4 * 1024 * 1024
STATE_SCHEMA_VERSIONS: Final = ("v1", "v2", "v3")
DEFAULT_FAMILY: Final = "default"
_WHAT: Final = "state schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """
    A column.

    :param type: Spark's JSON of its type: a name, or an object for a nested one.
    :param metadata: Spark's notes on it, e.g. ``spark.timeWindow``.
    """

    name: str
    type: Any
    nullable: bool
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFamily:
    """
    Keys and values of one kind of state.

    :param name: ``default`` where a store has one family only.
    :param key_schema_id: Number of the key's schema; ``value_schema_id`` likewise. Version 3 only.
    :param encoder: How keys are laid out, as Spark wrote it; version 3 only.
    :param user_key: Columns of the user's own key of a map; version 3 only.
    """

    name: str
    key: tuple[Field, ...]
    value: tuple[Field, ...]
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    encoder: Mapping[str, Any] = field(default_factory=dict)
    user_key: tuple[Field, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSchema:
    """The schema file of one state store; ``version`` is 1 to 3."""

    version: int
    families: tuple[ColumnFamily, ...]


def parse_state_schema(data: bytes) -> StateSchema:
    """
    Parse ``_metadata/schema`` or ``_stateSchema/<store>/<batch>_<id>``.

    :raises RecordError: too large (4 MiB), of an unknown version, cut off, with bytes left over,
        or not a state schema.
    """
    if len(data) > MAX_SCHEMA_BYTES:
        raise RecordError(f"The {_WHAT} is larger than {MAX_SCHEMA_BYTES} bytes.")
    source = JavaInput(data, _WHAT)
    version = source.text()
    if version not in STATE_SCHEMA_VERSIONS:
        raise RecordError(
            f"The {_WHAT} is of version {version!r:.40}; this release reads v1 to v3. "
            "Upgrade airflow-streaming."
        )
    found = StateSchema(version=int(version[1:]), families=_READERS[version](source))
    source.end()
    return found


def _short_family(source: JavaInput) -> tuple[ColumnFamily, ...]:
    return (_default(source.text(), source.text()),)


def _chunked_family(source: JavaInput) -> tuple[ColumnFamily, ...]:
    return (_default(source.chunks(), source.chunks()),)


def _default(key: str, value: str) -> ColumnFamily:
    return ColumnFamily(name=DEFAULT_FAMILY, key=_fields(key), value=_fields(value))


def _families(source: JavaInput) -> tuple[ColumnFamily, ...]:
    return tuple(_family(source) for _ in range(source.length()))


def _family(source: JavaInput) -> ColumnFamily:
    # Read in the order of the file.
    name = source.text()
    key_id, key = source.short(), source.chunks()
    value_id, value = source.short(), source.chunks()
    encoder, user_key = source.chunks(), source.chunks()
    return ColumnFamily(
        name=name,
        key=_fields(key),
        value=_fields(value),
        key_schema_id=key_id,
        value_schema_id=value_id,
        encoder=json_object(encoder, _WHAT, limit=MAX_SCHEMA_BYTES),
        user_key=_user_key(user_key),
    )


_READERS: Final[Mapping[str, Callable[[JavaInput], tuple[ColumnFamily, ...]]]] = {
    "v1": _short_family,
    "v2": _chunked_family,
    "v3": _families,
}


def _user_key(text: str) -> tuple[Field, ...] | None:
    # Spark writes an empty object for a missing key.
    return None if not json_object(text, _WHAT, limit=MAX_SCHEMA_BYTES) else _fields(text)


def _fields(text: str) -> tuple[Field, ...]:
    struct = json_object(text, _WHAT, limit=MAX_SCHEMA_BYTES)
    if struct.get("type") != "struct":
        raise RecordError(f"The {_WHAT} has columns that are not a struct.")
    return tuple(map(_field, items(struct.get("fields"), "fields")))


def _field(value: Any) -> Field:
    field = mapping(value, "A column")
    nullable = field.get("nullable")
    if not isinstance(nullable, bool) or "type" not in field:
        raise RecordError(f"The {_WHAT} has a column without a type, or that does not tell nulls.")
    return Field(
        name=string(field.get("name"), "The name of a column"),
        type=field["type"],
        nullable=nullable,
        metadata=mapping(field.get("metadata") or {}, "The metadata of a column"),
    )
