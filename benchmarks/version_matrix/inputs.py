"""
The rows that every shape reads: a few files, ten seconds of event time each.

Ids come again in later files, so that state written in one step of a trip is needed in the next;
there are nulls, letters beyond ASCII, and rows too late for any watermark.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

FILES_OF_STEP: Final = (2, 1, 1)
"""Files that arrive before each step of a trip; Spark takes one of them a batch."""

_START: Final = datetime(2024, 1, 1, tzinfo=UTC)
_SIDES: Final = ("left", "right")
_MODIFIED: Final = 1_700_000_000


def add_files(folder: Path, step: int) -> None:
    """Write the files that arrive before a step, from 0."""
    first = sum(FILES_OF_STEP[:step])
    for number in range(first, first + FILES_OF_STEP[step]):
        for side in _SIDES:
            _write(folder / side / f"{number:03}.json", number, side)


def _write(path: Path, number: int, side: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [_row(number, place, side) for place in range(12)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    # Spark takes files in the order of their times.
    os.utime(path, (_MODIFIED + number, _MODIFIED + number))


def _row(number: int, place: int, side: str) -> dict[str, Any]:
    is_left = side == "left"
    second = number * 10 + place % 10 + (0 if is_left else 1)
    late = 3600 if place == 11 and number else 0
    return {
        "k": None if place == 10 else f"k{(number + place) % 5}",
        "id": number * 4 + (place if is_left else 2 * place),
        "v": None if place == 7 else number + place / 4,
        "n": place,
        "s": ["eins", "zwölf", "三", ""][place % 4],
        "ts": (_START + timedelta(seconds=second - late)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
