"""
Ranges: numbers as text, ``0-4999,5003``, for the members that a backup uses of a bundle.

There is one text for every set of numbers; any other spelling is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_streaming.exceptions import RecordError

_RANGE = re.compile(r"(0|[1-9][0-9]{0,6})(?:-([1-9][0-9]{0,6}))?")


def to_ranges(numbers: Iterable[int]) -> str:
    """Return numbers as text; their order and repetitions do not matter."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in found)


def from_ranges(text: str, count: int) -> tuple[int, ...]:
    """
    Return the numbers of a text, rising.

    :param count: They lie below this.
    :raises RecordError: no such text, empty, not rising, or too large a number.
    """
    numbers: list[int] = []
    free = 0
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        low, high = _bounds(match) if match else (-1, -1)
        if match is None or low < free or high >= count:
            raise RecordError(f"{text!r:.60} does not choose from {count} members.")
        numbers.extend(range(low, high + 1))
        # Ranges that touch would be one range.
        free = high + 2
    return tuple(numbers)


def _bounds(match: re.Match[str]) -> tuple[int, int]:
    low = int(match[1])
    if match[2] is None:
        return low, low
    high = int(match[2])
    return (low, high) if high > low else (-1, -1)
