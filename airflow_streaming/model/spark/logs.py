"""
The logs of a checkpoint as Spark writes them: planned offsets and commits.

Everything in a checkpoint may have been written by any program. So a file is refused by its size
before
it is decoded, and JSON by its depth before it is walked.

Spark plans batch N in ``offsets/N`` before it runs and confirms it in ``commits/N`` when its sink
has it. Both are text: a version, a line of JSON, and in an offset log a line for each source.
Formats of Spark 2.1 to 4.3 are read; fields that are not known are passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.wire import parse_json_text

MAX_LOG_BYTES: Final = 1024 * 1024
"""A commit of 1,000 partitions and four stores names 4,000 state files, which is 160 kB."""
MAX_JSON_DEPTH: Final = 64
"""Spark's own files are at most about ten deep except for types of nested columns."""
_VERSION: Final = re.compile(r"v[0-9]{1,9}")
_INT64: Final = range(-(2**63), 2**63)

OFFSET_LOG_VERSIONS: Final = (1, 2)
COMMIT_LOG_VERSIONS: Final = (1, 2, 3)
SINKS_NAMED: Final = 3
"""Version of a commit log that names sinks (queryEvolution.enableSinkEvolution)."""
NO_OFFSET: Final = "-"
"""Spark's text for a source without an offset."""
MAX_PLANNED_SOURCES: Final = 10_000
"""Spark itself is long unusable with as many sources in one query."""
_SOURCE: Final = re.compile(r"([A-Za-z0-9_.-]{1,200}):(.*)")
_OPERATOR: Final = re.compile(r"0|[1-9][0-9]{0,17}")
_STATE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


def split_version(data: bytes, known: Sequence[int], what: str, *, limit: int) -> tuple[int, str]:
    """
    Return a log file's version and the text after its first line.

    :param known: Versions that the caller reads.
    :param what: Names the file in messages, e.g. ``commit log``.
    :param limit: Maximum bytes.
    :raises RecordError: too large, no text, without a version, or with an unknown one.
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
    :param limit: Maximum characters.
    :raises RecordError: too large, too deep, not JSON, no object, or with text that is not Unicode.
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
    # Nearly every text has few brackets and no escapes, and then nothing needs to be walked.
    if text.count("{") + text.count("[") > MAX_JSON_DEPTH and _is_too_deep(value):
        raise RecordError(f"The {what} is nested more than {MAX_JSON_DEPTH} deep.")
    if "\\u" in text and not _is_unicode(value):
        raise RecordError(f"The {what} has text that is not Unicode.")
    return value


def integer(value: Any, field: str) -> int:
    """Return a number that Spark keeps in 64 bits."""
    if type(value) is not int:
        raise RecordError(f"{field} is a {type(value).__name__}, not a whole number.")
    if value not in _INT64:
        raise RecordError(f"{field} is too large for a number of 64 bits.")
    return value


def count(value: Any, field: str) -> int:
    """Return a number that is not below zero."""
    if (number := integer(value, field)) < 0:
        raise RecordError(f"{field} is {number}; it cannot be below zero.")
    return number


def string(value: Any, field: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise RecordError(f"{field} is a {type(value).__name__}, not a text.")
    return value


def items(value: Any, field: str) -> list[Any]:
    """Return a list."""
    if not isinstance(value, list):
        raise RecordError(f"{field} is a {type(value).__name__}, not a list.")
    return value


def mapping(value: Any, field: str) -> dict[str, Any]:
    """Return a JSON object."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLog:
    """
    The plan of one batch: ``offsets/N``.

    :param log_version: 1, or 2 where each source has a name.
    :param batch_ms: When it was planned, by the driver's clock, in milliseconds since 1970.
    :param watermark_ms: Watermark the batch works with, likewise; 0 means that the query has none
        yet. Both are ``None`` where the plan does not tell.
    :param conf: Configuration pinned with the batch; Spark 2.1 pins none.
    :param offsets: Name and end offset of each source, as Spark wrote it, in plan order. The name
        is the source's number from 0 where the log has no names; the offset is ``NO_OFFSET`` for a
        source that has none yet.
    """

    log_version: int
    batch_ms: int | None = None
    watermark_ms: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    offsets: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSink:
    """
    A sink that the commits of a query with sink evolution name.

    :param provider: Spark's name of the implementation.
    :param is_active: The batch was written to it; an earlier sink stays listed.
    """

    name: str
    provider: str
    is_active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLog:
    """
    The proof that one batch is done: ``commits/N``.

    :param log_version: 1; 2 with state checkpoint format 2; 3 with named sinks.
    :param watermark_ms: Watermark of the next batch, in milliseconds since 1970; 0 means that the
        query has none yet, ``None`` that the commit does not tell.
    :param state_ids: Unique ids of the state that the batch left behind, by operator: for each
        partition the id of each store. Empty where state files have no such ids.
    :param sinks: Version 3: the sinks that the query has written to, by name.
    """

    log_version: int
    watermark_ms: int | None = None
    state_ids: Mapping[int, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    sinks: tuple[NamedSink, ...] = ()


def parse_offset_log(data: bytes) -> OffsetLog:
    """
    Parse ``offsets/N``.

    :raises RecordError: too large (1 MiB), of an unknown version, or not an offset log.
    """
    version, body = split_version(data, OFFSET_LOG_VERSIONS, "offset log", limit=MAX_LOG_BYTES)
    metadata, _, sources = body.partition("\n")
    lines = _lines(sources)
    # Spark 2.1 left the line of metadata empty for a query without any.
    about = {} if lines and not metadata and version == 1 else json_object(metadata, "offset log")
    return OffsetLog(
        log_version=version,
        batch_ms=_milliseconds(about, "batchTimestampMs"),
        watermark_ms=_milliseconds(about, "batchWatermarkMs"),
        conf=_conf(about.get("conf")),
        offsets=_numbered(lines) if version == 1 else _named(lines),
    )


def parse_commit_log(data: bytes) -> CommitLog:
    """
    Parse ``commits/N``.

    :raises RecordError: too large (1 MiB), of an unknown version, or not a commit log.
    """
    version, body = split_version(data, COMMIT_LOG_VERSIONS, "commit log", limit=MAX_LOG_BYTES)
    about = json_object(body.strip(), "commit log")
    return CommitLog(
        log_version=version,
        watermark_ms=_milliseconds(about, "nextBatchWatermarkMs"),
        state_ids=_state_ids(about.get("stateUniqueIds")),
        sinks=_sinks(about.get("sinkMetadataMap")) if version == SINKS_NAMED else (),
    )


def _lines(sources: str) -> list[str]:
    lines = sources.rstrip("\n").split("\n", MAX_PLANNED_SOURCES)
    if len(lines) > MAX_PLANNED_SOURCES:
        raise RecordError(f"The offset log has more than {MAX_PLANNED_SOURCES} sources.")
    return lines if lines != [""] else []


def _milliseconds(about: Mapping[str, Any], field: str) -> int | None:
    value = about.get(field)
    return None if value is None else integer(value, field)


def _conf(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    return {key: string(text, f"conf {key:.80}") for key, text in mapping(value, "conf").items()}


def _numbered(lines: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((str(number), line) for number, line in enumerate(lines))


def _named(lines: list[str]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for line in lines:
        match = _SOURCE.fullmatch(line)
        if match is None:
            raise RecordError("The offset log has a line that names no source.")
        if match[1] in found:
            raise RecordError(f"The offset log has two lines for the source {match[1]}.")
        found[match[1]] = match[2]
    return tuple(found.items())


def _state_ids(value: Any) -> dict[int, tuple[tuple[str, ...], ...]]:
    if value is None:
        return {}
    found = {}
    for operator, partitions in mapping(value, "stateUniqueIds").items():
        if not _OPERATOR.fullmatch(operator):
            raise RecordError(f"stateUniqueIds names an operator {operator!r:.40}.")
        found[int(operator)] = tuple(map(_ids, items(partitions, f"stateUniqueIds {operator}")))
    return found


def _sinks(value: Any) -> tuple[NamedSink, ...]:
    found = []
    for name, told in mapping(value, "sinkMetadataMap").items():
        where = f"sinkMetadataMap {name:.80}"
        about = mapping(told, where)
        if string(about.get("sinkName"), f"sinkName of {where}") != name:
            raise RecordError(f"{where} is of a sink {about['sinkName']!r:.80}.")
        if type(about.get("isActive")) is not bool:
            raise RecordError(f"isActive of {where} is neither true nor false.")
        string(about.get("commitOffset"), f"commitOffset of {where}")
        provider = string(about.get("providerName"), f"providerName of {where}")
        found.append(NamedSink(name=name, provider=provider, is_active=about["isActive"]))
    if sum(sink.is_active for sink in found) != 1:
        raise RecordError("sinkMetadataMap of a commit has not exactly one active sink.")
    return tuple(sorted(found, key=lambda sink: sink.name))


def _ids(stores: Any) -> tuple[str, ...]:
    # They become parts of file names, so nothing but what Spark makes is taken.
    ids = items(stores, "A partition of stateUniqueIds")
    for found in ids:
        if not isinstance(found, str) or not _STATE_ID.fullmatch(found):
            raise RecordError(f"stateUniqueIds has {found!r:.40} for an id.")
    return tuple(ids)
