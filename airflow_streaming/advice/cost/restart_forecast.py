"""
Predict how long a restart takes, from the recorded restarts of a stream.

A restart is the time from the record of an epoch to the first batch that its driver commits. It has three parts.
The start-up: launcher, JVM, Spark, script. The load of the state: the time by which the first batch is longer than
the usual one; it grows with the bytes of the state where the history shows both. The first batch itself.

Medians count, so a start on a crowded machine does not spoil the forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import Final, NamedTuple

FEWEST: Final = 3
"""Restarts that a forecast needs."""
MOST: Final = 12
"""The newest restarts count: an older one ran on another machine, Spark or script."""
_GROWTH: Final = 1.5
"""Ratio of the largest to the smallest state from which on the size says something about the load."""


class Restart(NamedTuple):
    """
    A recorded start of a driver; times in seconds.

    :param start_up: From the epoch's record to the begin of the first batch.
    :param first: The first batch.
    :param usual: The median of the batches after it.
    :param state: Bytes of state that the first batch loaded.
    """

    start_up: float
    first: float
    usual: float
    state: float = 0.0

    @property
    def total(self) -> float:
        return self.start_up + self.first

    @property
    def load(self) -> float:
        """Return the time by which the first batch was longer than the others."""
        return max(0.0, self.first - self.usual)


class Forecast(NamedTuple):
    """
    The next restart, in seconds.

    :param least: The shortest of the recorded restarts; ``most`` the longest.
    :param restarts: The number of recorded restarts.
    """

    start_up: float
    load: float
    batch: float
    least: float
    most: float
    restarts: int

    @property
    def total(self) -> float:
        return self.start_up + self.load + self.batch


def forecast(history: Sequence[Restart], state: float) -> Forecast | None:
    """
    Return the forecast; ``None`` with too few restarts.

    :param history: Recorded restarts, oldest first.
    :param state: Bytes of state that the next restart loads.
    """
    newest = history[-MOST:]
    if len(newest) < FEWEST:
        return None
    totals = [one.total for one in newest]
    return Forecast(
        start_up=median(one.start_up for one in newest),
        load=_load(newest, state),
        batch=median(one.usual for one in newest),
        least=min(totals),
        most=max(totals),
        restarts=len(newest),
    )


def errors(history: Sequence[Restart]) -> list[float]:
    """Return the error of each forecast that only older restarts made, as a share of the measured time."""
    found = []
    for number, measured in enumerate(history):
        told = forecast(history[:number], measured.state)
        if told is not None and measured.total > 0:
            found.append(abs(told.total - measured.total) / measured.total)
    return found


def _load(history: Sequence[Restart], state: float) -> float:
    usual = median(one.load for one in history)
    sizes = [one.state for one in history if one.state > 0]
    if not state or len(sizes) < FEWEST or max(sizes) < _GROWTH * min(sizes):
        return usual
    # The median of the slopes of all pairs: a single slow start does not bend the line.
    slopes = [
        (other.load - one.load) / (other.state - one.state)
        for one, other in combinations(history, 2)
        if one.state != other.state
    ]
    slope = max(0.0, median(slopes))
    base = median(one.load - slope * one.state for one in history)
    return max(0.0, base + slope * state)
