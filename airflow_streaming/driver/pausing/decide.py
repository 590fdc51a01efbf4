"""
Decide whether a driver holds its queries for a pause.

Two clocks bound a pause: the driver's own, from its first look on, and the time of day, for a driver that was started
in the middle of it. A clock of the host that is ahead ends a pause early. The task that closes the pause then sees
queries that are not held, and fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from airflow_streaming.model.records.control import BatchPause


class Hold(StrEnum):
    """The driver's answer to a pause."""

    HOLD = "hold"
    """Hold every query at the end of its batch."""
    CLOSED = "closed"
    """The pause was closed by its opener."""
    TOO_LATE = "too_late"
    """The batches in work did not end in time."""
    OVER = "over"
    """The pause has lasted as long as it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseView:
    """
    A pause as a driver sees it, with durations by the driver's own clock.

    :param is_closed: Its end is recorded.
    :param known_for: Seconds since the driver first saw it.
    :param held_for: Seconds since every query was held; ``None`` while one is not.
    :param now: The time of day.
    """

    pause: BatchPause
    is_closed: bool
    known_for: float
    held_for: float | None
    now: datetime

    @property
    def left(self) -> float:
        """Return the seconds until the driver ends the pause."""
        pause = self.pause
        by_day = (pause.until - self.now).total_seconds()
        if self.held_for is None:
            return min(by_day, pause.begin_within - self.known_for)
        return min(by_day, pause.longest - self.held_for)


def decide_hold(view: PauseView) -> Hold:
    """Decide whether the queries are held from now on."""
    if view.is_closed:
        return Hold.CLOSED
    if view.left > 0:
        return Hold.HOLD
    return Hold.TOO_LATE if view.held_for is None else Hold.OVER
