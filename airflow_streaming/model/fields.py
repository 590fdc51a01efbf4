"""
The fields of a value that a dag's author writes, held against what the value declares.

A wrong one is refused where it is written, by its name. Python itself would take it, and fail later,
in a task or a trigger, with an error that names neither the field nor the value.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from airflow_streaming.exceptions import SpecError

_NUMBERS: Final = (int, float, timedelta)


def check_values(value: Any, *, may_be_negative: tuple[str, ...] = ()) -> None:
    """
    Check that every field of a frozen dataclass holds what it declares.

    Numbers and durations are finite and not negative. A list is taken for a tuple, and a whole number
    for a float. An enum's plain text is not taken: nothing would compare equal by identity to it.

    :param may_be_negative: Names of fields for which a negative number is allowed.
    :raises SpecError: with the field, what it holds and what to give instead.
    """
    kind: Any = type(value)
    for name, hint in _hints(kind).items():
        given, where = getattr(value, name), f"{kind.__name__}.{name}"
        if type(given) is list and get_origin(hint) is tuple:
            given = tuple(given)
            object.__setattr__(value, name, given)
        _check(where, given, hint, may_be_negative=name in may_be_negative)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind)}


def _check(where: str, given: object, hint: Any, *, may_be_negative: bool) -> None:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not any(_fits(given, kind) for kind in kinds):
        wanted = " or ".join(map(_named, kinds))
        raise SpecError(f"{where} is {given!r:.80}; give {wanted}.")
    if get_origin(kinds[0]) is tuple and isinstance(given, tuple):
        for index, item in enumerate(given):
            _check(f"{where}[{index}]", item, get_args(kinds[0])[0], may_be_negative=False)
    check_number(where, given, may_be_negative=may_be_negative)


def check_number(where: str, given: object, *, may_be_negative: bool = False) -> None:
    """
    Check that a number or a duration is finite and not negative; anything else passes.

    :raises SpecError: it is not; the message begins with ``where``.
    """
    if isinstance(given, float) and not isfinite(given):
        raise SpecError(f"{where} is {given!r}; give a number that is finite.")
    least: Any = timedelta(0) if isinstance(given, timedelta) else 0
    if isinstance(given, _NUMBERS) and not may_be_negative and given < least:
        raise SpecError(f"{where} is {given!r:.80}; the least is 0.")


def _fits(given: object, kind: Any) -> bool:
    if get_origin(kind) is tuple:
        return isinstance(given, tuple)
    if kind is float:
        return type(given) in (float, int)
    # A bool is an int for Python, and one in place of a number is a mistake.
    return isinstance(given, kind) and not (kind is int and isinstance(given, bool))


def _named(kind: Any) -> str:
    if kind is NoneType:
        return "None"
    if get_origin(kind) is tuple:
        return f"a tuple of {_named(get_args(kind)[0])}"
    return str(kind.__name__)
