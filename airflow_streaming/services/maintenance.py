"""
Maintenance windows: hold a stream between two batches, without ending its driver.

Opening records a request with an end of its own. The driver follows it; nothing else is needed to let the stream
continue, so every process that takes part may die.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_streaming.exceptions import MaintenanceRefused, SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.records.control import (
    Event,
    EventKind,
    Maintenance,
    MaintenanceEnd,
)
from airflow_streaming.services.fleet_index import note_act
from airflow_streaming.services.streams import Probe, look_once
from airflow_streaming.supervision.maintenance import WindowStanding, WindowState, judge_window

SHORTEST: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(days=1)
"""Bounds of a window's length. Sources must keep the unread data of this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedWindow:
    """
    The result of closing a window.

    :param held: The stream stood still until now.
    :param reason: Why, as a sentence.
    """

    window: Maintenance
    held: bool
    reason: str


def begin_maintenance(
    home: StreamHome,
    *,
    longest: timedelta,
    begin_within: timedelta,
    by: str,
    reason: str,
    key: str = "",
) -> Maintenance:
    """
    Ask the stream's driver to hold its queries between two batches.

    :param longest: How long the queries are held at most.
    :param begin_within: How long the batches in work may take to end.
    :param key: A window that is open under the same key is returned as it is.
    :raises MaintenanceRefused: another window, or a change of the stream, is open.
    :raises SpecError: the length is out of bounds.
    """
    if not SHORTEST <= longest <= LONGEST:
        raise SpecError(
            f"A maintenance window lasts {duration_text(SHORTEST)} to {duration_text(LONGEST)}, not "
            f"{duration_text(longest)}. Choose another length, or stop the stream."
        )
    home.check_not_removed()
    if change := home.unfinished_change():
        raise MaintenanceRefused(
            f"Change {change.number} of {home.name} ({change.what}) is open, and needs a stream that "
            "runs. Open the window after its end."
        )
    now = _now()
    wanted = Maintenance(
        number=1,
        by=by,
        reason=reason,
        at=now,
        begin_within=begin_within.total_seconds(),
        longest=longest.total_seconds(),
        key=key,
    )
    window = home.begin_maintenance(wanted, now)
    if (window.by, window.at) == (by, now):
        _tell(home, by, f"Maintenance window {window.number} opened: {reason}")
    return window


def look_at_maintenance(home: StreamHome, window: Maintenance, probe: Probe) -> WindowStanding:
    """Look once at a window and at the stream's driver."""
    end, epoch = home.maintenance_end(window.number), home.newest_epoch()
    seen = None if epoch is None or end is not None else look_once(home, epoch, probe)
    return judge_window(window, end, seen, _now())


def end_maintenance(
    home: StreamHome, window: Maintenance, probe: Probe, *, by: str, reason: str
) -> ClosedWindow:
    """
    Close a window: the stream continues.

    :returns: Whether the stream stood still until now. A window that another user has closed before tells no more.
    """
    standing = look_at_maintenance(home, window, probe)
    end = MaintenanceEnd(number=window.number, by=by, reason=reason, at=_now())
    if standing.state is not WindowState.CLOSED and home.end_maintenance(end):
        _tell(home, by, f"Maintenance window {window.number} closed: {reason}")
    return ClosedWindow(
        window=window, held=standing.state is WindowState.HELD, reason=standing.reason
    )


def _tell(home: StreamHome, by: str, message: str) -> None:
    note_act(home)
    home.add_event(Event(event=EventKind.MAINTENANCE, at=_now(), by=by, message=message))


def _now() -> datetime:
    return datetime.now(UTC)
