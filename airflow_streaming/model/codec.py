"""
Frozen dataclasses to JSON values and back by their type hints; moments as ISO 8601 text.

A reader for a hint is built once and kept: the status of every stream, read at every look, has
hundreds of fields, and a new analysis of their hints took most of the time of a look.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from airflow_streaming.exceptions import RecordError

_AS_THEY_ARE: Final = frozenset({str, int, float, bool, types.NoneType})
Reader = Callable[[Any, str], Any]
"""Takes a JSON value and where it stands, for messages; returns it typed or raises RecordError."""

_BEYOND: Final = 2**63


def format_time(moment: datetime) -> str:
    """
    Return an aware datetime as ISO 8601 in UTC, with microseconds.

    :raises RecordError: the time does not know its zone.
    """
    if moment.tzinfo is None:
        raise RecordError(f"The time {moment} has no time zone; records hold aware times only.")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def parse_time(text: str, field: str) -> datetime:
    """
    Parse an ISO 8601 time that names its zone.

    :param field: Names the value in messages.
    :raises RecordError: not a time, or without a zone.
    """
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError) as err:
        raise RecordError(f"{field}: {text!r:.80} is not an ISO 8601 time.") from err
    raise RecordError(f"{field}: {text!r:.80} does not say its time zone.")


class OwnForm:
    """Base of values that have a JSON form of their own; both methods are called by the codec."""

    __slots__ = ()

    def to_json(self) -> Any:
        """Return the JSON form."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, value: Any, where: str) -> Any:
        """
        Build the value from its JSON form.

        :param where: Names the value in messages.
        :raises RecordError: another form.
        """
        raise NotImplementedError


def encode(value: Any) -> Any:
    """Return a dataclass, and its nested values, in JSON form; durations as seconds."""
    cls: Any = type(value)
    if cls in _AS_THEY_ARE:
        return value
    if isinstance(value, OwnForm):
        return value.to_json()
    if names := _names(cls):
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    return value


def reader_of(hint: Any) -> Reader:
    """Return what reads values of a type hint, e.g. of ``tuple[QueryStatus, ...] | None``."""
    return _reader_of(hint)


@cache
def _reader_of(hint: Any) -> Reader:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _optional(reader_of(next(a for a in get_args(hint) if a is not types.NoneType)))
    if origin is tuple:
        return _list(reader_of(get_args(hint)[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(reader_of(get_args(hint)[1]))
    if is_dataclass(hint):
        return _object(hint)
    if issubclass(hint, OwnForm):
        made: Reader = hint.from_json
        return made
    if issubclass(hint, StrEnum):
        return _choice(hint)
    return _SCALARS.get(hint) or _scalar(hint)


def shown(value: Any) -> str:
    """Return a JSON value for a message, cut at 80 characters; only the kind of a list or object."""
    # The repr of a list nested a thousand deep is itself too deep.
    return type(value).__name__ if isinstance(value, list | Mapping) else f"{value!r:.80}"


@cache
def _names(cls: Any) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; none of any other class."""
    return tuple(field.name for field in fields(cls)) if is_dataclass(cls) else ()


class _Part(NamedTuple):
    name: str
    read: Reader
    is_required: bool


@cache
def _parts(cls: type) -> tuple[_Part, ...]:
    hints = get_type_hints(cls)
    return tuple(
        _Part(
            name=field.name,
            read=reader_of(hints[field.name]),
            is_required=field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(cls)
    )


def _object(cls: Any) -> Reader:
    def read(data: Any, where: str) -> Any:
        if not isinstance(data, Mapping):
            raise RecordError(f"{where}: expected an object, found {type(data).__name__}.")
        values: dict[str, Any] = {}
        # Asked for here and not before, because a class may hold others of its own kind.
        for part in _parts(cls):
            if part.name in data:
                values[part.name] = part.read(data[part.name], f"{where}.{part.name}")
            elif part.is_required:
                raise RecordError(f"{where}.{part.name} is missing.")
        try:
            return cls(**values)
        except (ValueError, OverflowError) as err:
            raise RecordError(f"{where}: {err}") from err

    return read


def _optional(read_inner: Reader) -> Reader:
    def read(value: Any, where: str) -> Any:
        return None if value is None else read_inner(value, where)

    return read


def _list(read_item: Reader) -> Reader:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise RecordError(f"{where}: expected a list, found {type(value).__name__}.")
        return tuple(read_item(item, f"{where}[{i}]") for i, item in enumerate(value))

    return read


def _mapping(read_item: Reader) -> Reader:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, Mapping):
            raise RecordError(f"{where}: expected an object, found {type(value).__name__}.")
        return {str(key): read_item(v, f"{where}.{key:.80}") for key, v in value.items()}

    return read


def _choice(names: type[StrEnum]) -> Reader:
    def read(value: Any, where: str) -> Any:
        try:
            return names(_text(value, where))
        except ValueError as err:
            of = ", ".join(names)
            raise RecordError(f"{where}: {shown(value)} is not one of {of}.") from err

    return read


def _scalar(expected: type) -> Reader:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise RecordError(f"{where}: expected {expected.__name__}, found {shown(value)}.")
        return value

    return read


_text, _number = _scalar(str), _scalar(float)


def _float(value: Any, where: str) -> float:
    if type(value) is not int:
        number: float = _number(value, where)
        return number
    try:
        return float(value)
    except OverflowError as err:
        raise RecordError(f"{where}: the number is too large.") from err


def _time(value: Any, where: str) -> datetime:
    return parse_time(_text(value, where), where)


def _duration(value: Any, where: str) -> timedelta:
    # A duration travels as seconds.
    try:
        return timedelta(seconds=_float(value, where))
    except OverflowError as err:
        raise RecordError(f"{where}: the duration is too long.") from err


def _int(value: Any, where: str) -> int:
    number: int = _whole(value, where)
    if not -_BEYOND <= number < _BEYOND:
        raise RecordError(f"{where}: the number does not fit into 64 bits.")
    return number


_whole = _scalar(int)
_SCALARS: dict[type, Reader] = {int: _int, float: _float, datetime: _time, timedelta: _duration}
