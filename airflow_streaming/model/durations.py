"""Durations in words."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_UNITS: Final = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0))
_FROM: Final = 2
"""A unit is used from two of it on, or for just one: 90 s says more than 1.5 min."""


def duration_text(duration: timedelta | float) -> str:
    """
    Return a duration in the unit that suits it, to three digits, e.g. ``90 s`` or ``2.5 h``.

    :param duration: Seconds, where it is a number.
    """
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    for unit, size in _UNITS:
        if abs(seconds) >= _FROM * size or abs(seconds) == size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{_three_digits(seconds)} s"


def _three_digits(number: float) -> str:
    if abs(number) >= 1_000:
        return f"{number:,.0f}"
    return f"{number if abs(number) >= 0.001 else 0.0:.3g}"
