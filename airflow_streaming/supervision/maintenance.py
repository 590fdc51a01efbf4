"""
Judge a maintenance window: may its tasks begin, and has the stream stood still until now.

A stream without a driver stands still, too: every driver that starts in a window waits before its first batch. So the
stream stands still until the end of a window if it does so at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.exceptions import closed
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.observation import Observation
from airflow_streaming.model.records.control import Maintenance, MaintenanceEnd

MARGIN: Final = timedelta(seconds=15)
"""A status is up to 10 s old: a window that ends sooner may be over by now."""


class WindowState(StrEnum):
    """Where a window stands."""

    WAITING = "waiting"
    """A batch is in work, or the driver has not seen the window yet."""
    HELD = "held"
    """The stream stands still."""
    REFUSED = "refused"
    """The driver cannot hold a query."""
    MISSED = "missed"
    """The stream did not stand still in time, or does not any more."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStanding:
    """Where a window stands, with the reason as a sentence."""

    state: WindowState
    reason: str


def judge_window(
    window: Maintenance, end: MaintenanceEnd | None, seen: Observation | None, now: datetime
) -> WindowStanding:
    """
    Judge a window.

    :param end: Its end, if recorded.
    :param seen: The newest epoch; ``None`` if the stream has never run.
    """
    if end is not None:
        return _standing(WindowState.CLOSED, f"Closed by {end.by}: {closed(end.reason)}")
    if now >= window.until:
        return _standing(
            WindowState.MISSED, "It has lasted as long as it may; the stream continues."
        )
    if seen is None or seen.is_dead:
        return _standing(
            WindowState.HELD, "No driver runs; a driver that starts waits for its end."
        )
    return _by_driver(window, seen, now)


def _by_driver(window: Maintenance, seen: Observation, now: datetime) -> WindowStanding:
    hold = None if seen.status is None else seen.status.hold
    if hold is not None and hold.maintenance == window.number:
        if hold.refusal:
            return _standing(WindowState.REFUSED, hold.refusal)
        if hold.is_held and hold.left_s > MARGIN.total_seconds():
            return _standing(
                WindowState.HELD,
                f"Every query is held since {duration_text(hold.held_for_s)}, for at most "
                f"{duration_text(hold.left_s)} more.",
            )
        if hold.is_held:
            return _standing(WindowState.MISSED, "Its length is over; the stream continues.")
        missing = f"Waiting for the batch in work of {', '.join(hold.waits_for) or 'a query'}."
    else:
        missing = f"The driver of epoch {seen.epoch.number} does not hold its queries."
    if now >= window.at + timedelta(seconds=window.begin_within) + MARGIN:
        return _standing(WindowState.MISSED, f"{missing} The time to begin is over.")
    return _standing(WindowState.WAITING, missing)


def _standing(state: WindowState, reason: str) -> WindowStanding:
    return WindowStanding(state=state, reason=reason)
