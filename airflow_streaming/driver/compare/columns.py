"""
The columns of two outputs: where they differ, and whether the terms fit them.

Order and nullability say nothing of the rows and are not compared. A column of another type is a
difference even where the values look alike: whoever reads the output would get another type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from airflow_streaming.core.cutover.comparing.report import ColumnDiffers
from airflow_streaming.core.cutover.terms import CompareTerms

_TIMES: Final = frozenset({"timestamp", "timestamp_ntz", "date", "string"})
_EXACT: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATING: Final = frozenset({"float", "double"})


class Unfit(Exception):
    """The terms cannot be applied to the outputs; the message says why."""


class Measured(NamedTuple):
    """
    A column that is summed.

    :param name: As the terms name it.
    :param exact: Its sums are exact; those of floating numbers depend on the order of rows.
    """

    name: str
    exact: bool


def columns_that_differ(blue: Any, green: Any, terms: CompareTerms) -> list[ColumnDiffers]:
    """Return the columns whose types differ, or that one side lacks, but for ignored ones."""
    ours, theirs = dict(blue.dtypes), dict(green.dtypes)
    return [
        ColumnDiffers(column=name, blue=ours.get(name, ""), green=theirs.get(name, ""))
        for name in dict.fromkeys([*ours, *theirs])
        if name not in terms.ignore and ours.get(name) != theirs.get(name)
    ]


def type_of(rows: Any, name: str) -> str:
    """Return the type of a column, which may be a field of another; empty where it is missing."""
    try:
        found: str = rows.select(name).dtypes[0][1]
    except Exception:  # noqa: BLE001 - whatever Spark says, it cannot be selected
        return ""
    return found


def check_time(blue: Any, green: Any, terms: CompareTerms) -> bool:
    """
    Tell whether both sides can be cut by time.

    :raises Unfit: the column is none of the two's, or is no time.
    """
    return not terms.time or _fits(blue, green, terms.time, _TIMES, "bucket by", "a time")


def usable_keys(blue: Any, green: Any, terms: CompareTerms) -> list[str]:
    """
    Return the key columns that both sides have; one that is missing is told as a difference.

    :raises Unfit: neither side has one of them.
    """
    return [key for key in terms.keys if _fits(blue, green, key, None, "group by", "")]


def usable_sums(blue: Any, green: Any, terms: CompareTerms) -> list[Measured]:
    """
    Return the columns to sum that both sides have as numbers.

    :raises Unfit: neither side has one of them, or it is a number in neither.
    """
    return list(_sums(blue, green, terms))


def _sums(blue: Any, green: Any, terms: CompareTerms) -> Iterator[Measured]:
    for name in terms.sums:
        types = type_of(blue, name), type_of(green, name)
        numeric = [_is_number(one) for one in types]
        if not any(numeric):
            _refuse(name, types, "sum", "a number")
        if all(numeric):
            yield Measured(name, exact=_FLOATING.isdisjoint(types))


def _fits(
    blue: Any, green: Any, name: str, wanted: frozenset[str] | None, use: str, what: str
) -> bool:
    types = type_of(blue, name), type_of(green, name)
    fits = [bool(one) and (wanted is None or one in wanted) for one in types]
    if not any(fits):
        _refuse(name, types, use, what)
    return all(fits)


def _refuse(name: str, types: tuple[str, str], use: str, what: str) -> None:
    if not any(types):
        raise Unfit(f"Neither output has a column {name!r} to {use}. Name one that they have.")
    raise Unfit(
        f"Column {name!r} is {types[0] or 'missing'} in blue and {types[1] or 'missing'} in green; "
        f"to {use} it has to be {what}."
    )


def _is_number(name: str) -> bool:
    return name in _EXACT or name in _FLOATING or name.startswith("decimal")
