"""
The log of a file sink, ``<output>/_spark_metadata``: which files each batch has written.

Readers of the output believe this log and nothing else, and the sink passes over every batch that
it knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.core.checkpoint.sources import MAX_ENTRY_LENGTH, log_lines
from airflow_streaming.core.checkpoint.texts import count, json_object, split_version, string
from airflow_streaming.exceptions import RecordError

MAX_SINK_LOG_BYTES: Final = 64 * 1024 * 1024
"""A compacted log has a line of about 250 bytes for every file that was ever written."""

ACTIONS: Final = ("add", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLogEntry:
    """
    One file of the output.

    :param path: Its absolute URI, with its escapes as Spark wrote them.
    :param action: ``add`` or ``delete``.
    """

    path: str
    size: int
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLog:
    """One file of the log: ``N``, or ``N.compact`` with everything up to batch N."""

    version: int
    entries: tuple[SinkLogEntry, ...]


def parse_sink_log(data: bytes) -> SinkLog:
    """
    Parse ``_spark_metadata/N`` or ``_spark_metadata/N.compact``.

    :raises RecordError: too large (64 MiB), of an unknown version, or not a sink's log.
    """
    version, body = split_version(data, (1,), "sink log", limit=MAX_SINK_LOG_BYTES)
    return SinkLog(version=version, entries=tuple(map(_entry, log_lines(body, "sink log"))))


def _entry(line: str) -> SinkLogEntry:
    entry = json_object(line, "sink log", limit=MAX_ENTRY_LENGTH)
    return SinkLogEntry(
        path=string(entry.get("path"), "path"),
        size=count(entry.get("size"), "size"),
        action=_action(entry.get("action")),
    )


def _action(value: Any) -> str:
    # One text for all entries: a log may have a million of them.
    for action in ACTIONS:
        if value == action:
            return action
    raise RecordError(f"The sink log has a file of action {value!r:.40}; Spark adds or deletes.")
