"""
How records travel: versioned, size-capped JSON to frozen dataclasses and back.

All input is untrusted. A reader ignores unknown fields (a newer minor wrote them), refuses an
unknown major version or kind, and names a malformed field. The codec uses the type hints of a
dataclass, so that a record is declared once and never parsed by hand.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, Self, TypeVar

from airflow_streaming import __version__
from airflow_streaming.exceptions import RecordError, RecordFormatError
from airflow_streaming.model.codec import encode, reader_of, shown
from airflow_streaming.model.texts import printable

MAX_RECORD_BYTES = 1024 * 1024
"""No record is near this size; a status of 200 queries is about 200 kB."""
MAX_NOTE_BYTES = 64 * 1024
"""Of an alert or an event: hundreds of them are read at once."""
STREAM: Final = "stream"
"""Key in the bytes of each record of a stream, whether or not its class has such a field."""
RELEASE: Final = "release"
"""Key in the bytes of each record of a stream: the version of this package that wrote it."""
_RELEASE: Final = re.compile(r"\d[\w.+-]{0,30}")
_TEXTS: Final = ("reason", "message")
"""Fields that quote users, scripts and errors: no secret is written, and nothing unprintable is read."""

_SHORT: Final = 64
"""Characters to which no text is cut further."""

Value = TypeVar("Value")


def other_version(found: str, release: object = None) -> RecordFormatError:
    """
    Return the refusal of a record that another version of the package wrote.

    :param found: The difference, with the running version.
    :param release: The version that wrote it, as its bytes name it.
    """
    if isinstance(release, str) and _RELEASE.fullmatch(release):
        return RecordFormatError(
            f"airflow-streaming {release} wrote the record: {found}. Install {release} or a newer "
            "version here. Leave the file in place."
        )
    return RecordFormatError(
        f"Another version of airflow-streaming wrote the record: {found}. Run that version, or make a "
        "new home with 'airflow-streaming init'. Leave the file in place."
    )


def _check_names_stream(stream: object) -> None:
    """
    Check that the bytes of a stream's record name a stream, as every writer of this version does.

    :param stream: The value of their field ``stream``.
    :raises RecordFormatError: they have none.
    """
    if stream is None:
        raise other_version(f"it has no field {STREAM!r}, which version {__version__} writes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """
    Base of every record in a home; ``KIND`` and ``VERSION`` are written with it.

    ``LARGEST`` is the number of bytes that a reader takes and a writer writes.
    """

    KIND: ClassVar[str]
    VERSION: ClassVar[int] = 1
    LARGEST: ClassVar[int] = MAX_RECORD_BYTES

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with the record's kind and version."""
        return {"kind": self.KIND, "version": self.VERSION, **encode(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """
        Build the record from its JSON form.

        :raises RecordError: wrong kind, or a field of the wrong type.
        :raises RecordFormatError: unknown major version.
        """
        cls._check_kind(data)
        decoded: Self = reader_of(cls)(_with_texts(data, printable), cls.KIND)
        return decoded

    @classmethod
    def _check_kind(cls, data: Mapping[str, Any]) -> None:
        if data.get("kind") != cls.KIND:
            raise RecordError(f"Expected a {cls.KIND!r} record, found {shown(data.get('kind'))}.")
        version = data.get("version")
        if type(version) is not int or version != cls.VERSION:
            raise other_version(
                f"version {__version__} reads version {cls.VERSION} of "
                f"{cls.KIND!r} records, found {shown(version)}",
                data.get(RELEASE),
            )

    def to_bytes(self, stream: str | None = None, **beside: int | str) -> bytes:
        """
        Return the record as it is stored.

        :param stream: The stream or lane in whose folder it is stored; ``None`` outside of a stream.
        :param beside: Fields of its place that its class does not have.
        :raises RecordError: no reader would take it: too large, a naive time, or NaN.
        """
        place = {} if stream is None else {STREAM: stream, RELEASE: __version__, **beside}
        try:
            told = _with_texts({**place, **self.to_dict()}, _masked)
            data = (json.dumps(told, sort_keys=True, allow_nan=False) + "\n").encode()
        except ValueError as err:
            raise RecordError(f"A {self.KIND!r} record cannot be written: {err}") from err
        if len(data) > self.LARGEST:
            raise RecordError(
                f"A {self.KIND!r} record of {len(data)} bytes cannot be written; the limit is "
                f"{self.LARGEST}. Shorten the texts in it."
            )
        return data

    def fitted(self) -> Self:
        """Return the record with its texts cut until it is no larger than a reader accepts."""
        most, room = self.LARGEST, self.LARGEST - self.LARGEST // 8  # masks may lengthen a text
        record = self
        while most > _SHORT and len(json.dumps(record.to_dict(), allow_nan=False)) > room:
            most //= 4
            record = replace(self, **_cut(self, most))
        return record

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """
        Read a stored record.

        :raises RecordError: not JSON, too large, or not this kind of record.
        """
        return cls.from_dict(parse_json(data, limit=cls.LARGEST))

    @classmethod
    def stored(cls, data: bytes) -> tuple[Self, Mapping[str, Any]]:
        """
        Read a record of a stream's folder; return it with the values of its bytes that say where it belongs.

        These are the stream, and all values that are no fields of its class.

        :raises RecordError: as ``from_bytes``.
        :raises RecordFormatError: its bytes name no stream.
        """
        record = parse_json(data, limit=cls.LARGEST)
        # Before the fields: a class with a field of that name would call it malformed.
        cls._check_kind(record)
        _check_names_stream(record.get(STREAM))
        beside = {name: record[name] for name in record.keys() - cls.__dataclass_fields__.keys()}
        return cls.from_dict(record), {**beside, STREAM: record[STREAM]}


def _cut(record: Record, most: int) -> dict[str, Any]:
    """Return the texts of a record, and of its mappings, cut to a number of characters."""
    found: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if type(value) is str:
            found[field.name] = value[:most]
        elif isinstance(value, Mapping):
            listed = [*value.items()][: most // 8]
            found[field.name] = {key[:most]: str(text)[:most] for key, text in listed}
    return found


def _with_texts(data: Mapping[str, Any], act: Callable[[str], str]) -> Mapping[str, Any]:
    texts = {name: data[name] for name in _TEXTS if isinstance(data.get(name), str)}
    return {**data, **{name: act(text) for name, text in texts.items()}} if texts else data


def _masked(text: str) -> str:
    from airflow_streaming.model.spark.failures import mask_secrets  # not at dag parse

    return mask_secrets(printable(text))


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
        # As text: bytes would be taken in UTF-16 and UTF-32 as well, which nothing here writes.
        return _DECODER.decode(data.decode())
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


def decode(cls: type[Value], data: Mapping[str, Any], where: str) -> Value:
    """
    Build a dataclass that is not a record itself, e.g. one line of a progress history.

    :raises RecordError: a field is missing or of the wrong type.
    """
    value: Value = reader_of(cls)(data, where)
    return value


class JsonValue:
    """
    Base of values that travel as JSON inside of others, e.g. among a task's arguments.

    They have no kind and no version; ``WHAT`` names them in messages. Durations are seconds.
    """

    __slots__ = ()
    WHAT: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        encoded: dict[str, Any] = encode(self)
        return encoded

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """
        Build the value from its JSON form.

        :raises RecordError: a field is missing, of the wrong type, or out of its bounds.
        """
        return decode(cls, data, cls.WHAT)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text:.40} is too large for a number")
    return number


# Made once: making it takes longer than parsing a line with it.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
