"""
The logs of file sources and file sinks.

The kind of source that an offset belongs to follows from the offset's form alone; a checkpoint
holds nothing
else about it.

Readers of the output believe this log and nothing else, and the sink passes over every batch that
it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.checkpoints.read.report import SourceType
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.logs import (
    NO_OFFSET,
    count,
    integer,
    json_object,
    json_value,
    split_version,
    string,
)

MAX_SOURCE_LOG_BYTES: Final = 64 * 1024 * 1024
"""A compacted log has a line of about 150 bytes for every file that its source has seen."""
MAX_ENTRY_LENGTH: Final = 64 * 1024
"""Characters of one line; a path is at most a few thousand long."""

MAX_SINK_LOG_BYTES: Final = 64 * 1024 * 1024
"""A compacted log has a line of about 250 bytes for every file that was ever written."""
ACTIONS: Final = ("add", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLogEntry:
    """
    A file that a file source has taken into a batch.

    :param path: Its URI, with its escapes as Spark wrote them.
    :param timestamp_ms: Its modification time in milliseconds since 1970.
    :param batch: Number of the source's own log, which is not the query's batch; -1 when unset.
    """

    path: str
    timestamp_ms: int
    batch: int


def source_of(text: str) -> tuple[SourceType, Any]:
    """
    Return the type of source of an offset, and the offset.

    The offset is parsed JSON, or the text itself if it is not JSON; ``None`` before the first.
    Never fails: text that is too deep or not Unicode stays text.
    """
    if text == NO_OFFSET:
        return SourceType.NOT_STARTED, None
    try:
        offset = json_value(text, "offset")
    except RecordError:
        return SourceType.CUSTOM, text
    return _type_of(offset), offset


def _type_of(offset: Any) -> SourceType:
    if type(offset) is int:
        return SourceType.NUMBER
    if not isinstance(offset, dict) or not offset:
        return SourceType.CUSTOM
    if offset.keys() == {"logOffset"} and type(offset["logOffset"]) is int:
        return SourceType.FILE
    if offset.keys() == {"offset", "timestamp"} and _are_integers(offset.values()):
        return SourceType.RATE_MICRO_BATCH
    return SourceType.KAFKA if all(map(_are_partitions, offset.values())) else SourceType.CUSTOM


def _are_partitions(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(key.isascii() and key.isdecimal() for key in value)
        and _are_integers(value.values())
    )


def _are_integers(values: Iterable[Any]) -> bool:
    return all(type(value) is int for value in values)


def parse_source_log(data: bytes) -> tuple[SourceLogEntry, ...]:
    """
    Parse a file source's ``sources/i/K`` or ``sources/i/K.compact``.

    :raises RecordError: as ``source_log_entries``.
    """
    return tuple(source_log_entries(data))


def source_log_entries(data: bytes) -> Iterator[SourceLogEntry]:
    """
    Iterate over a file source's log, for a large compacted one.

    :raises RecordError: Too large (64 MiB), of an unknown version, or not a file source's log; the
        error of an entry is raised when it is reached.
    """
    _, body = split_version(data, (1,), "source log", limit=MAX_SOURCE_LOG_BYTES)
    return map(_entry, log_lines(body, "source log"))


def log_lines(body: str, what: str) -> Iterator[str]:
    """
    Go through a log that has an entry in each line, without copying all lines at once.

    :raises RecordError: a line is empty.
    """
    start = 0
    while start < len(body):
        end = body.find("\n", start)
        end = len(body) if end < 0 else end
        if end == start:
            raise RecordError(f"The {what} has an empty line.")
        yield body[start:end]
        start = end + 1


def _entry(line: str) -> SourceLogEntry:
    entry = json_object(line, "source log", limit=MAX_ENTRY_LENGTH)
    return SourceLogEntry(
        path=string(entry.get("path"), "path"),
        timestamp_ms=integer(entry.get("timestamp"), "timestamp"),
        batch=integer(entry.get("batchId"), "batchId"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLogEntry:
    """
    A file of the output.

    :param path: Its absolute URI, with Spark's escapes.
    :param action: ``add`` or ``delete``.
    """

    path: str
    size: int
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLog:
    """A file of the sink's log: ``N``, or ``N.compact`` with everything up to batch N."""

    version: int
    entries: tuple[SinkLogEntry, ...]


def parse_sink_log(data: bytes) -> SinkLog:
    """
    Parse ``_spark_metadata/N`` or ``_spark_metadata/N.compact``.

    :raises RecordError: too large (64 MiB), of an unknown version, or not a sink's log.
    """
    version, body = split_version(data, (1,), "sink log", limit=MAX_SINK_LOG_BYTES)
    return SinkLog(version=version, entries=tuple(map(_sink_entry, log_lines(body, "sink log"))))


def _sink_entry(line: str) -> SinkLogEntry:
    entry = json_object(line, "sink log", limit=MAX_ENTRY_LENGTH)
    return SinkLogEntry(
        path=string(entry.get("path"), "path"),
        size=count(entry.get("size"), "size"),
        action=_action(entry.get("action")),
    )


def _action(value: Any) -> str:
    # A text that all entries share: a log may have a million of them.
    for action in ACTIONS:
        if value == action:
            return action
    raise RecordError(f"The sink log has a file of action {value!r:.40}; Spark adds or deletes.")
