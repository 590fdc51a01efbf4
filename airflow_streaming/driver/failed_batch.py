"""What the batch that failed was to read: its offsets, from the checkpoint's plan of it."""

from __future__ import annotations

import re
from typing import Final

from airflow_streaming.core.progress import MAX_OFFSET, MAX_SOURCES
from airflow_streaming.files.store import Store

_NOTHING: Final = "-"
"""What Spark writes for a source that has no offset yet."""

_ARROW: Final = " -> "
_NAMED: Final = re.compile(r"([\w.-]{1,200}):(.*)", re.DOTALL)


def offsets_of(checkpoint: Store, batch: int) -> tuple[str, ...]:
    """
    Return ``start -> end`` for every source of a planned batch, each cut to 500 characters.

    Empty when the batch was not planned, or its plan is not what Spark writes.

    :raises StreamingError: the checkpoint cannot be read.
    """
    ends = _planned(checkpoint, batch)
    starts = _planned(checkpoint, batch - 1) if ends and batch > 0 else {}
    return tuple(
        _span(name, starts.get(name, _NOTHING), end)
        for name, end in list(ends.items())[:MAX_SOURCES]
    )


def _planned(checkpoint: Store, batch: int) -> dict[str, str]:
    data = checkpoint.read(f"offsets/{batch}")
    return {} if data is None else offsets_in(data.decode(errors="replace"))


def offsets_in(plan: str) -> dict[str, str]:
    """Return the offsets in a file of the offset log (v1, or v2 with names), by source."""
    header, *lines = plan.splitlines() or [""]
    found = [line.strip() for line in lines[1:] if line.strip()]
    if header == "v1":
        return {str(position): offset for position, offset in enumerate(found)}
    if header == "v2":
        named = [match for line in found if (match := _NAMED.fullmatch(line))]
        return {match[1]: match[2] for match in named}
    return {}


def _span(name: str, start: str, end: str) -> str:
    label = "" if name.isdecimal() else f"{name}: "
    room = (MAX_OFFSET - len(label) - len(_ARROW)) // 2
    return f"{label}{_cut(start, room)}{_ARROW}{_cut(end, room)}"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 3]}..."
