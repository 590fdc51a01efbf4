"""
A migration as a TOML file, for review and for version control.

A user may change the initial value of an added column. All other fields follow from the two plans, and a digest protects
them: with exchanged columns or operators, Spark would read one value as another.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.model.codec import encode, reader_of
from airflow_streaming.model.jobs.migration import (
    Carry,
    Move,
    OperatorMigration,
    StateColumn,
    StateMigration,
)

FORMAT: Final = 1
MAX_BYTES: Final = 1024 * 1024
_HEAD: Final = """\
# The migration of the state of query {query}, as the change gate has computed it.
# Review it. Only the values of `initial` may be changed. Then run
#   airflow-streaming checkpoint migrate SOURCE TARGET --plan FILE --runtime RUNTIME
"""
_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
_NUMBER: Final = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?")
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_TEXT: Final = re.compile(r"'[^'\\]{0,1000}'")
_TIME: Final = re.compile(r"TIMESTAMP '[0-9:. +TZ-]{4,40}'")
_DATE: Final = re.compile(r"DATE '[0-9]{4}-[0-9]{2}-[0-9]{2}'")
_DECLARABLE: Final = frozenset({"sum", "count", "min", "max"})
"""State columns that are the whole state of an aggregate, so that a user can declare them."""
_NULL: Final = "NULL"


def migration_toml(migration: StateMigration) -> str:
    """Return the file of a migration."""
    return "\n".join([_HEAD.format(query=migration.query), *_lines(migration)]) + "\n"


def read_migration(data: bytes, name: str) -> StateMigration:
    """
    Return the migration in a file.

    :param name: The file, for messages.
    :raises SpecError: it is not such a file, or something other than an initial value was changed.
    """
    try:
        _check_size(data)
        given = tomllib.loads(data.decode("utf-8"))
        migration = _migration(given)
    except (RecordError, ValueError, TypeError, KeyError) as err:
        problem = str(err).rstrip(".")
        raise SpecError(
            f"{name} is not a migration: {problem}. Write it anew with `gate change --write-migration`."
        ) from err
    if given.get("mapping") != mapping_digest(migration):
        raise SpecError(
            f"{name} was changed in more than its initial values. Another mapping of operators or columns would read "
            "one value as another. Write it anew with `gate change --write-migration`."
        )
    check_initial_values(migration, name)
    return migration


def check_initial_values(migration: StateMigration, name: str) -> None:
    """
    Refuse a missing initial value, and a value that its column cannot hold.

    :raises SpecError: the first such value.
    """
    for operator in migration.operators:
        for column in operator.columns:
            if column.move is Move.ADD and not is_literal(column):
                raise SpecError(
                    f"{name}: column {column.name} of {column.of} starts with {column.initial or 'no value'}, which is "
                    f"not a literal of type {column.type}. Write one, e.g. 0, 'text' or NULL, as its `initial`."
                )


def is_literal(column: StateColumn) -> bool:
    """Tell whether the initial value of a column is a literal that the column can hold."""
    text = column.initial or ""
    if text == _NULL:
        return column.name != "count"
    if column.type in _NUMBERS:
        form = _NUMBER if column.type in ("float", "double") else _WHOLE
        return form.fullmatch(text) is not None
    if column.type.startswith("decimal"):
        return _NUMBER.fullmatch(text) is not None
    forms = {"string": _TEXT, "timestamp": _TIME, "date": _DATE}
    form_of = forms.get(column.type)
    if form_of is not None:
        return form_of.fullmatch(text) is not None
    return column.type == "boolean" and text in ("TRUE", "FALSE")


def mapping_digest(migration: StateMigration) -> str:
    """Return a digest of every field that a user may not change."""
    fixed = replace(
        migration,
        consequences=(),
        operators=tuple(map(_without_declared, migration.operators)),
    )
    return hashlib.sha256(json.dumps(encode(fixed), sort_keys=True).encode()).hexdigest()


def _without_declared(operator: OperatorMigration) -> OperatorMigration:
    parts = Counter(column.of for column in operator.value)

    def fixed(column: StateColumn) -> StateColumn:
        alone = column.move is Move.ADD and parts[column.of] == 1 and column.name in _DECLARABLE
        return replace(column, initial="declared") if alone else column

    def key(column: StateColumn) -> StateColumn:
        is_declared = column.move is Move.ADD and operator.carry is Carry.COLUMNS
        return replace(column, initial="declared") if is_declared else column

    return replace(
        operator, key=tuple(map(key, operator.key)), value=tuple(map(fixed, operator.value))
    )


def _lines(migration: StateMigration) -> Iterator[str]:
    yield f"format = {FORMAT}"
    yield f"query = {_text(migration.query)}"
    yield f'mapping = "{mapping_digest(migration)}"'
    yield f"dropped = {json.dumps(migration.dropped)}"
    yield "consequences = ["
    yield from (f"  {_text(sentence)}," for sentence in migration.consequences)
    yield "]"
    for operator in migration.operators:
        shown = encode(operator)
        yield "\n[[operators]]"
        yield from _pairs({k: v for k, v in shown.items() if k not in ("key", "value")})
        for side in ("key", "value"):
            for column in shown.get(side) or ():
                yield f"\n[[operators.{side}]]"
                yield from _pairs(column)


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if value is None or value in ("", [], ()):
            continue
        yield f"{name} = {_text(value) if isinstance(value, str) else json.dumps(value)}"


def _text(text: str) -> str:
    # A string of JSON is one of TOML, but for two letters that TOML escapes in another way.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check_size(data: bytes) -> None:
    if len(data) > MAX_BYTES:
        raise RecordError(f"it has more than {MAX_BYTES} bytes")


def _migration(given: Mapping[str, Any]) -> StateMigration:
    if given.get("format") != FORMAT:
        raise RecordError(f"format {given.get('format')!r}, expected {FORMAT}")
    read: StateMigration = reader_of(StateMigration)(
        {key: value for key, value in given.items() if key not in ("format", "mapping")},
        "migration",
    )
    return read
