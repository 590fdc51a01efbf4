"""
The log of a file source: which files each batch has found, read and written as Spark does.

It has an entry for every batch that found files. Every so many entries one is compacted: it repeats
all files so far, and is what Spark reads when it starts. Spark works the interval out from the
compacted entries that are there, so that the next entry must be written in the same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.read.file_logs import MAX_SOURCE_LOG_BYTES, log_lines
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.logs import integer, json_object, split_version, string

DEFAULT_INTERVAL: Final = 10
"""Spark's own ``spark.sql.streaming.fileSource.log.compactInterval``."""
_PLAIN: Final = re.compile(
    r'^\{"path":"([^"\\\x00-\x1f]*)","timestamp":([0-9]{1,18}),"batchId":([0-9]{1,18})\}$',
    re.MULTILINE,
)


_HEAD, _TIME, _ENTRY = '{"path":"', '","timestamp":', ',"batchId":'


class LogEntry(NamedTuple):
    """When a file was last written, in milliseconds since 1970, and the entry that has it."""

    timestamp_ms: int
    entry: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLog:
    """
    The files of a file source, in the order of reading.

    :param files: By path; a path is spelled as in the log, with JSON's own escapes.
    :param last: Number of the newest entry, even if no batch was planned with it; -1 if empty.
    :param interval: Number of entries between two compacted ones.
    """

    files: Mapping[str, LogEntry] = field(default_factory=dict)
    last: int = -1
    interval: int = DEFAULT_INTERVAL

    def up_to(self, entry: int) -> dict[str, LogEntry]:
        """Return the files of the entries up to one."""
        return {path: seen for path, seen in self.files.items() if seen.entry <= entry}

    def name(self, entry: int) -> str:
        """Return the name of an entry's file."""
        return f"{entry}.compact" if (entry + 1) % self.interval == 0 else str(entry)

    def written(self, entry: int, files: Mapping[str, LogEntry]) -> bytes:
        """
        Return the content of a new entry.

        :param entry: Its number; entries from there on are taken as not being there.
        :param files: The files that it adds.
        """
        is_compacted = (entry + 1) % self.interval == 0
        before = self.up_to(entry - 1) if is_compacted else {}
        new = {path: LogEntry(seen.timestamp_ms, entry) for path, seen in files.items()}
        return "\n".join(
            ["v1", *(_line(path, seen) for path, seen in (before | new).items())]
        ).encode()


def entries_of(data: bytes) -> dict[str, LogEntry]:
    """
    Return the files of one entry, plain or compacted.

    :raises RecordError: The entry is not a file source's.
    """
    _, body = split_version(data, (1,), "source log", limit=MAX_SOURCE_LOG_BYTES)
    # All lines but those with an escape are taken at once, which is ten times as fast as one by one.
    plain = _PLAIN.findall(body)
    if len(plain) == body.count("\n") + 1:
        return {path: LogEntry(int(time), int(entry)) for path, time, entry in plain}
    return dict(map(_parsed, log_lines(body, "source log")))


def compact_interval(compacted: Collection[int], default: int) -> int:
    """
    Return the interval by which Spark continues compacting a log.

    :param compacted: Numbers of the existing compacted entries.
    :param default: The configured interval of the query.
    """
    newest = sorted(compacted)[-2:]
    if len(newest) == 2:
        return newest[1] - newest[0]
    if not newest:
        return default
    size = newest[0] + 1
    if size <= default or default >= size // 2:
        return size
    # The smallest interval that is not below the wish and whose multiples meet the compacted entry.
    return next((step for step in range(default, size // 2 + 1) if size % step == 0), size)


def since_common(files: Iterable[str], known: Collection[str]) -> list[str]:
    """
    Return the unknown files from the first known one on.

    Files that another query read before the first common file are its own past: they are gone by
    now, or the new query was configured not to read them. Without a common file there is no such
    past.
    """
    ordered = list(files)
    first = next((number for number, path in enumerate(ordered) if path in known), 0)
    return [path for path in ordered[first:] if path not in known]


def _parsed(line: str) -> tuple[str, LogEntry]:
    record = json_object(line, "source log", limit=MAX_SOURCE_LOG_BYTES)
    spelled = json.dumps(string(record.get("path"), "path"), ensure_ascii=False)[1:-1]
    return spelled, LogEntry(
        integer(record.get("timestamp"), "timestamp"), integer(record.get("batchId"), "batchId")
    )


def _line(path: str, seen: LogEntry) -> str:
    if any(character < " " for character in path):
        raise RecordError(f"{path!r:.100} is not a path of a file source's log.")
    return f"{_HEAD}{path}{_TIME}{seen.timestamp_ms}{_ENTRY}{seen.entry}}}"
