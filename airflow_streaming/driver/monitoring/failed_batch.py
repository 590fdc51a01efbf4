"""
The input of a failed batch: the offsets of its sources and the files of a file source.

The plan of a batch holds positions. The offset of a file source counts entries of the source's own log, and
the log names the files.
"""

from __future__ import annotations

import json
from typing import Final

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.progress import MAX_OFFSET, MAX_SOURCES
from airflow_streaming.model.spark.logs import (
    NO_OFFSET,
    json_object,
    json_value,
    parse_offset_log,
    split_version,
)
from airflow_streaming.model.storage import Store

MOST_ENTRIES: Final = 20
"""Most entries of a source's log read for one batch; a batch usually has one entry."""
_MOST_LOG: Final = 4_000_000
"""Most bytes parsed of one entry; a file takes about 250."""
_ARROW: Final = " -> "


def offsets_of(checkpoint: Store, batch: int) -> tuple[str, ...]:
    """
    Return ``start -> end`` for every source of a planned batch, each cut to 500 characters.

    The files of a file source follow its offsets. The result is empty without a readable plan.

    :raises StreamingError: the checkpoint cannot be read.
    """
    ends = _planned(checkpoint, batch)
    starts = _planned(checkpoint, batch - 1) if ends and batch > 0 else {}
    told = []
    for name, end in list(ends.items())[:MAX_SOURCES]:
        start = starts.get(name, NO_OFFSET)
        span = _span(name, start, end)
        files = _files(checkpoint, name, _entry(start), _entry(end))
        told.append(_with_files(span, files))
    return tuple(told)


def files_of(checkpoint: Store, batch: int) -> list[str]:
    """
    Return the files that the file sources of a planned batch read.

    :raises StreamingError: the checkpoint cannot be read.
    """
    ends = _planned(checkpoint, batch)
    starts = _planned(checkpoint, batch - 1) if ends and batch > 0 else {}
    return [
        path
        for name, end in list(ends.items())[:MAX_SOURCES]
        for path in _files(checkpoint, name, _entry(starts.get(name, NO_OFFSET)), _entry(end))
    ]


def _planned(checkpoint: Store, batch: int) -> dict[str, str]:
    data = checkpoint.read(f"offsets/{batch}")
    try:
        return {} if data is None else dict(parse_offset_log(data).offsets)
    except RecordError:
        return {}


def _span(name: str, start: str, end: str) -> str:
    label = "" if name.isdecimal() else f"{name}: "
    room = (MAX_OFFSET - len(label) - len(_ARROW)) // 2
    return f"{label}{_cut(start, room)}{_ARROW}{_cut(end, room)}"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 3]}..."


def _entry(offset: str) -> int | None:
    """Return the last entry of a file source's log that an offset includes; -1 before the first."""
    if offset == NO_OFFSET:
        return -1
    try:
        found = json_value(offset, "offset")
    except RecordError:
        return None
    entry = found.get("logOffset") if isinstance(found, dict) else None
    return entry if type(entry) is int else None


def _files(checkpoint: Store, name: str, start: int | None, end: int | None) -> list[str]:
    if start is None or end is None:
        return []
    found: list[str] = []
    for entry in range(start + 1, min(end, start + MOST_ENTRIES) + 1):
        found += _in_entry(checkpoint, f"sources/{name}", entry)
    return found


def _in_entry(checkpoint: Store, folder: str, entry: int) -> list[str]:
    # A compacted entry holds all files so far, each with the number of its own entry.
    for path in (f"{folder}/{entry}", f"{folder}/{entry}.compact"):
        data = checkpoint.read(path)
        if data is not None:
            return _paths(data, entry)
    return []


def _paths(data: bytes, entry: int) -> list[str]:
    try:
        _, body = split_version(data, (1,), "source log", limit=_MOST_LOG)
        rows = [json_object(line, "source log") for line in body.splitlines() if line]
    except RecordError:
        return []
    return [str(row.get("path", "")) for row in rows if row.get("batchId", entry) == entry]


def _with_files(span: str, files: list[str]) -> str:
    """Append as many files as fit, then the number of the remaining files."""
    shown = span
    for number, path in enumerate(files):
        more = f"{shown}{', ' if number else ' = '}{json.dumps(path, ensure_ascii=False)}"
        rest = len(files) - number - 1
        tail = f" and {rest} more" if rest else ""
        if len(more) + len(tail) > MAX_OFFSET:
            left = len(files) - number
            tail = f" and {left} more" if number else f" = {left} file{'' if left == 1 else 's'}"
            return f"{shown}{tail}" if len(shown) + len(tail) <= MAX_OFFSET else shown
        shown = more
    return shown
