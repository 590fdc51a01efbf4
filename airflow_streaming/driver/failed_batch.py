"""What the batch that failed was to read: its offsets, from the checkpoint's plan of it."""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.checkpoint.logs import NO_OFFSET, parse_offset_log
from airflow_streaming.core.progress import MAX_OFFSET, MAX_SOURCES
from airflow_streaming.exceptions import RecordError
from airflow_streaming.files.store import Store

_ARROW: Final = " -> "


def offsets_of(checkpoint: Store, batch: int) -> tuple[str, ...]:
    """
    Return ``start -> end`` for every source of a planned batch, each cut to 500 characters.

    Empty when the batch was not planned, or its plan is not what Spark writes.

    :raises StreamingError: the checkpoint cannot be read.
    """
    ends = _planned(checkpoint, batch)
    starts = _planned(checkpoint, batch - 1) if ends and batch > 0 else {}
    return tuple(
        _span(name, starts.get(name, NO_OFFSET), end)
        for name, end in list(ends.items())[:MAX_SOURCES]
    )


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
