"""
How records travel: versioned, size-capped JSON to frozen dataclasses and back.

Everything read is untrusted. A reader ignores fields it does not know (a newer minor wrote them),
refuses a major version or kind it does not know, and names the field that is wrong. The codec walks
the type hints of a dataclass, so that a record is declared once and never parsed by hand.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Final, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from airflow_streaming.exceptions import RecordError

MAX_RECORD_BYTES = 1024 * 1024
"""No record is near this size; a status of 200 queries is about 200 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Base of every record in a home; ``KIND`` and ``VERSION`` are written with it."""

    KIND: ClassVar[str]
    VERSION: ClassVar[int] = 1

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with the record's kind and version."""
        return {"kind": self.KIND, "version": self.VERSION, **_encode(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """
        Build the record from its JSON form.

        :raises RecordError: wrong kind, unknown major version, or a field of the wrong type.
        """
        if data.get("kind") != cls.KIND:
            raise RecordError(f"Expected a {cls.KIND!r} record, found {_shown(data.get('kind'))}.")
        version = data.get("version")
        if type(version) is not int or version != cls.VERSION:
            raise RecordError(
                f"This release reads version {cls.VERSION} of {cls.KIND!r} records, found "
                f"{_shown(version)}. Upgrade airflow-streaming where the record is read."
            )
        decoded: Self = _decode_dataclass(cls, data, cls.KIND)
        return decoded

    def to_bytes(self) -> bytes:
        """
        Return the record as it is stored.

        :raises RecordError: no reader would take it: too large, a naive time, or NaN.
        """
        try:
            data = (json.dumps(self.to_dict(), sort_keys=True, allow_nan=False) + "\n").encode()
        except ValueError as err:
            raise RecordError(f"A {self.KIND!r} record cannot be written: {err}") from err
        if len(data) > MAX_RECORD_BYTES:
            raise RecordError(
                f"A {self.KIND!r} record of {len(data)} bytes cannot be written; the limit is "
                f"{MAX_RECORD_BYTES}. Shorten the texts in it."
            )
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """
        Read a stored record.

        :raises RecordError: not JSON, too large, or not this kind of record.
        """
        return cls.from_dict(parse_json(data))


def parse_json(data: bytes, *, limit: int = MAX_RECORD_BYTES) -> dict[str, Any]:
    """
    Parse one JSON object of at most ``limit`` bytes.

    :raises RecordError: too large, too deeply nested, not JSON, or not an object.
    """
    value = parse_json_value(data, limit=limit)
    if not isinstance(value, dict):
        raise RecordError(f"Expected a JSON object, found {type(value).__name__}.")
    return value


def parse_json_value(data: bytes, *, limit: int = MAX_RECORD_BYTES) -> Any:
    """
    Parse one JSON value of any kind, of at most ``limit`` bytes.

    :raises RecordError: too large, too deeply nested, or not JSON.
    """
    if len(data) > limit:
        raise RecordError(f"Refused to parse {len(data)} bytes of JSON; the limit is {limit}.")
    try:
        return json.loads(data, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as err:
        raise RecordError(f"Not valid JSON: {err}") from err


def parse_json_text(text: str, *, limit: int = MAX_RECORD_BYTES) -> Any:
    """
    Parse one JSON value that is text already, of at most ``limit`` characters.

    :raises RecordError: as ``parse_json_value``.
    """
    if len(text) > limit:
        raise RecordError(f"Refused to parse {len(text)} characters of JSON; the limit is {limit}.")
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as err:
        raise RecordError(f"Not valid JSON: {err}") from err


Value = TypeVar("Value")


def decode(cls: type[Value], data: Mapping[str, Any], where: str) -> Value:
    """
    Build a dataclass that is no record of its own, e.g. one line of a progress history.

    :param where: Names the value in messages.
    :raises RecordError: a field is missing or of the wrong type.
    """
    value: Value = _decode_dataclass(cls, data, where)
    return value


def encode(value: Any) -> Any:
    """Return a dataclass that is no record of its own in its JSON form; durations as seconds."""
    return _encode(value)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text:.40} is too large for a number")
    return number


# Made once: making it takes longer than parsing a line with it.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


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

    :raises RecordError: not a time, or without a zone.
    """
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError) as err:
        raise RecordError(f"{field}: {_shown(text)} is not an ISO 8601 time.") from err
    raise RecordError(f"{field}: {_shown(text)} does not say its time zone.")


def _encode(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    return value


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _decode_dataclass(cls: type, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise RecordError(f"{where}: expected an object, found {type(data).__name__}.")
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for field in fields(cls):
        if field.name in data:
            values[field.name] = _decode(
                hints[field.name], data[field.name], f"{where}.{field.name}"
            )
        elif field.default is MISSING and field.default_factory is MISSING:
            raise RecordError(f"{where}.{field.name} is missing.")
    try:
        return cls(**values)
    except ValueError as err:
        raise RecordError(f"{where}: {err}") from err


def _decode(hint: Any, value: Any, where: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _decode_optional(hint, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise RecordError(f"{where}: expected a list, found {type(value).__name__}.")
        return tuple(_decode(get_args(hint)[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise RecordError(f"{where}: expected an object, found {type(value).__name__}.")
        inner = get_args(hint)[1]
        return {str(key): _decode(inner, v, f"{where}.{key:.80}") for key, v in value.items()}
    return _decode_scalar(hint, value, where)


def _decode_optional(hint: Any, value: Any, where: str) -> Any:
    if value is None:
        return None
    inner = next(arg for arg in get_args(hint) if arg is not type(None))
    return _decode(inner, value, where)


def _decode_scalar(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return _decode_dataclass(hint, value, where)
    if hint is datetime:
        return parse_time(_typed(str, value, where), where)
    if hint is timedelta:
        return _duration(value, where)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        try:
            return hint(_typed(str, value, where))
        except ValueError as err:
            names = ", ".join(hint)
            raise RecordError(f"{where}: {_shown(value)} is not one of {names}.") from err
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return _float(value, where)
    return _typed(hint, value, where)


def _duration(value: Any, where: str) -> timedelta:
    # A duration travels as seconds.
    try:
        return timedelta(seconds=_decode_scalar(float, value, where))
    except OverflowError as err:
        raise RecordError(f"{where}: the duration is too long.") from err


def _float(value: int, where: str) -> float:
    try:
        return float(value)
    except OverflowError as err:
        raise RecordError(f"{where}: the number is too large.") from err


def _typed(expected: type, value: Any, where: str) -> Any:
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise RecordError(f"{where}: expected {expected.__name__}, found {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    # The repr of a list nested a thousand deep is itself too deep.
    return type(value).__name__ if isinstance(value, list | Mapping) else f"{value!r:.80}"
