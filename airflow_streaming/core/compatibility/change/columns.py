"""Columns, compared by name, type and place; whether nulls are allowed is the version gate's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.core.plan.plan import Column
from airflow_streaming.core.plan.types import type_name

_WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint", "double"),
    "smallint": ("int", "bigint", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """
    How two lists of columns differ.

    :param retyped: Columns of another type, old and new.
    :param is_reordered: Whether columns that both have come in another order.
    """

    added: tuple[Column, ...] = ()
    removed: tuple[Column, ...] = ()
    retyped: tuple[tuple[Column, Column], ...] = ()
    is_reordered: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.retyped or self.is_reordered)


def column_change(old: Sequence[Column], new: Sequence[Column]) -> ColumnChange:
    """Compare columns by name."""
    was = {column.name: column for column in old}
    now = {column.name: column for column in new}
    kept = [column for column in old if column.name in now]
    return ColumnChange(
        added=tuple(column for column in new if column.name not in was),
        removed=tuple(column for column in old if column.name not in now),
        retyped=tuple(
            (column, now[column.name])
            for column in kept
            if plain_type(column.type) != plain_type(now[column.name].type)
        ),
        is_reordered=[c.name for c in kept] != [c.name for c in new if c.name in was],
    )


def same_columns(old: Sequence[Column], new: Sequence[Column]) -> bool:
    """Tell whether names, types and order are equal."""
    return signature(old) == signature(new)


def signature(columns: Iterable[Column]) -> tuple[tuple[str, str], ...]:
    """Return what two lists of columns are compared by."""
    return tuple((column.name, plain_type(column.type)) for column in columns)


def types_of(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the types alone."""
    return tuple(plain_type(column.type) for column in columns)


def plain_type(text: str) -> str:
    """Return a type's name without spaces, in Spark's short form."""
    return type_name("".join(text.split()))


def is_wider(old: str, new: str) -> bool:
    """Tell whether every value of the old type is one of the new."""
    return plain_type(new) in _WIDER.get(plain_type(old), ())


def shown(columns: Iterable[Column]) -> str:
    """Return columns for a person."""
    return ", ".join(f"{column.name} {column.type}" for column in columns) or "none"
