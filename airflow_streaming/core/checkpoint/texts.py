"""
How Spark writes its logs: a version, a line of JSON, and more lines of the log's own.

Everything in a checkpoint may have been written by anybody. So a file is refused by its size before
it is decoded, and JSON by its depth before somebody walks it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from airflow_streaming.core.wire import parse_json_text
from airflow_streaming.exceptions import RecordError

MAX_LOG_BYTES: Final = 1024 * 1024
"""A commit of 1,000 partitions and four stores names 4,000 state files, which is 160 kB."""

MAX_JSON_DEPTH: Final = 64
"""What Spark writes is at most about ten deep but for types of nested columns."""

_VERSION: Final = re.compile(r"v[0-9]{1,9}")
_INT64: Final = range(-(2**63), 2**63)


def split_version(data: bytes, known: Sequence[int], what: str, *, limit: int) -> tuple[int, str]:
    """
    Return a log file's version and the text after its first line.

    :param known: Versions that the caller reads.
    :param what: Names the file in messages, e.g. ``commit log``.
    :param limit: The most bytes.
    :raises RecordError: too large, no text, without a version, or of one that is not known.
    """
    if len(data) > limit:
        raise RecordError(f"The {what} is larger than {limit} bytes.")
    try:
        version, _, body = data.decode("utf-8").partition("\n")
    except UnicodeDecodeError as err:
        raise RecordError(f"The {what} is not text.") from err
    if not _VERSION.fullmatch(version):
        raise RecordError(f"The {what} does not begin with a version.")
    # Spark takes "v01" for version 1 but never writes it.
    if version not in (names := [f"v{number}" for number in known]):
        raise RecordError(
            f"The {what} is of version {version}; this release reads {_listed(names)}. "
            "Upgrade airflow-streaming."
        )
    return int(version[1:]), body


def json_object(text: str, what: str, *, limit: int = MAX_LOG_BYTES) -> dict[str, Any]:
    """
    Parse one JSON object.

    :param what: Names the file in messages.
    :param limit: The most characters.
    :raises RecordError: too large, too deep, not JSON, no object, or with text that is no Unicode.
    """
    value = json_value(text, what, limit=limit)
    if not isinstance(value, dict):
        raise RecordError(f"Expected a JSON object in the {what}, found {type(value).__name__}.")
    return value


def json_value(text: str, what: str, *, limit: int = MAX_LOG_BYTES) -> Any:
    """
    Parse one JSON value of any kind.

    :raises RecordError: as ``json_object``, but that it need not be an object.
    """
    value = parse_json_text(text, limit=limit)
    # Nearly every text has few brackets and no escapes, and then nothing has to be walked.
    if text.count("{") + text.count("[") > MAX_JSON_DEPTH and _is_too_deep(value):
        raise RecordError(f"The {what} is nested more than {MAX_JSON_DEPTH} deep.")
    if "\\u" in text and not _is_unicode(value):
        raise RecordError(f"The {what} has text that is not Unicode.")
    return value


def integer(value: Any, field: str) -> int:
    """
    Return a number that Spark keeps in 64 bits.

    :raises RecordError: it is something else.
    """
    if type(value) is not int:
        raise RecordError(f"{field} is a {type(value).__name__}, not a whole number.")
    if value not in _INT64:
        raise RecordError(f"{field} is too large for a number of 64 bits.")
    return value


def count(value: Any, field: str) -> int:
    """
    Return a number that is not below zero.

    :raises RecordError: it is something else.
    """
    if (number := integer(value, field)) < 0:
        raise RecordError(f"{field} is {number}; it cannot be below zero.")
    return number


def string(value: Any, field: str) -> str:
    """
    Return a text.

    :raises RecordError: it is something else.
    """
    if not isinstance(value, str):
        raise RecordError(f"{field} is a {type(value).__name__}, not a text.")
    return value


def items(value: Any, field: str) -> list[Any]:
    """
    Return a list.

    :raises RecordError: it is something else.
    """
    if not isinstance(value, list):
        raise RecordError(f"{field} is a {type(value).__name__}, not a list.")
    return value


def mapping(value: Any, field: str) -> dict[str, Any]:
    """
    Return a JSON object.

    :raises RecordError: it is something else.
    """
    if not isinstance(value, dict):
        raise RecordError(f"{field} is a {type(value).__name__}, not an object.")
    return value


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        level = [inner for outer in level for inner in _inner(outer)]
    return bool(level)


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _is_unicode(value: Any) -> bool:
    # Half of a surrogate pair can be escaped in JSON, but nothing can write it as UTF-8 again.
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
