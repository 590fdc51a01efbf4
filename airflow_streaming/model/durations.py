"""Durations and numbers in words."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import floor, isfinite, log10
from typing import Final

_UNITS: Final = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0))
CLOCKS_DIFFER: Final = timedelta(minutes=5)
"""The most by which the clocks of two hosts that work are taken to differ."""
_FROM: Final = 2
"""A unit is used from two of it on, or for just one: 90 s says more than 1.5 min."""


def age_of(moment: datetime, now: datetime) -> timedelta:
    """
    Return how long ago a recorded moment is.

    A moment at most ``CLOCKS_DIFFER`` in the future counts as now. A later one comes from a wrong
    clock, or was edited by hand, and counts as if it were as long past. Otherwise code that waits
    for it to be old would wait until then.
    """
    age = now - moment
    return max(age, timedelta(0)) if age >= -CLOCKS_DIFFER else -age


def duration_text(duration: timedelta | float) -> str:
    """
    Return a duration in the unit that suits it, to three digits, e.g. ``90 s`` or ``2.5 h``.

    :param duration: Seconds, where it is a number.
    """
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    for unit, size in _UNITS:
        if abs(seconds) >= _FROM * size or abs(seconds) == size:
            return f"{number_text(seconds / size)} {unit}"
    return f"{number_text(seconds if abs(seconds) >= 0.001 else 0.0)} s"


def seconds_text(seconds: float) -> str:
    """Return seconds to the microsecond, so that texts of different durations differ."""
    return f"{f'{seconds:.6f}'.rstrip('0').rstrip('.')} s"


def number_text(number: float, digits: int = 3) -> str:
    """Return a number to so many digits, all of those before the point, and never with an exponent."""
    if number == 0 or not isfinite(number):
        return f"{abs(number):.0f}"
    places = max(0, digits - 1 - floor(log10(abs(number))))
    text = f"{number:,.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text
