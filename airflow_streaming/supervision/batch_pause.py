"""
Judge a pause: may its tasks begin, and has the stream stood still until now.

A stream without a driver stands still, too: every driver that starts in a pause waits before its first batch. So the
stream stands still until the end of a pause if it does so at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.exceptions import closed
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.observation import Observation
from airflow_streaming.model.records.control import BatchPause, BatchPauseEnd

MARGIN: Final = timedelta(seconds=15)
"""A status is up to 10 s old: a pause that ends sooner may be over by now."""


class PauseState(StrEnum):
    """Where a pause stands."""

    WAITING = "waiting"
    """A batch is in work, or the driver has not seen the pause yet."""
    HELD = "held"
    """The stream stands still."""
    REFUSED = "refused"
    """The driver cannot hold a query."""
    MISSED = "missed"
    """The stream did not stand still in time, or does not any more."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseStanding:
    """Where a pause stands, with the reason as a sentence."""

    state: PauseState
    reason: str


def judge_pause(
    pause: BatchPause, end: BatchPauseEnd | None, seen: Observation | None, now: datetime
) -> PauseStanding:
    """
    Judge a pause.

    :param end: Its end, if recorded.
    :param seen: The newest epoch; ``None`` if the stream has never run.
    """
    if end is not None:
        return _standing(PauseState.CLOSED, f"Closed by {end.by}: {closed(end.reason)}")
    if now >= pause.until:
        return _standing(
            PauseState.MISSED, "It has lasted as long as it may; the stream continues."
        )
    if seen is None or seen.is_dead:
        return _standing(PauseState.HELD, "No driver runs; a driver that starts waits for its end.")
    return _by_driver(pause, seen, now)


def _by_driver(pause: BatchPause, seen: Observation, now: datetime) -> PauseStanding:
    hold = None if seen.status is None else seen.status.pause
    if hold is not None and hold.number == pause.number:
        if hold.refusal:
            return _standing(PauseState.REFUSED, hold.refusal)
        if hold.is_held and hold.left_s > MARGIN.total_seconds():
            return _standing(
                PauseState.HELD,
                f"Every query has been held for {duration_text(hold.held_for_s)}. The hold ends within "
                f"{duration_text(hold.left_s)}.",
            )
        if hold.is_held:
            return _standing(PauseState.MISSED, "Its length is over; the stream continues.")
        missing = f"Waiting for the batch in work of {', '.join(hold.waits_for) or 'a query'}."
    else:
        missing = f"The driver of epoch {seen.epoch.number} does not hold its queries."
    if now >= pause.at + timedelta(seconds=pause.begin_within) + MARGIN:
        return _standing(PauseState.MISSED, f"{missing} The time to begin is over.")
    return _standing(PauseState.WAITING, missing)


def _standing(state: PauseState, reason: str) -> PauseStanding:
    return PauseStanding(state=state, reason=reason)
