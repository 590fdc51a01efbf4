"""
A stop that is expected to be short: whether consumers of the stream wait for its end.

A restore, an undo, an upgrade or a cutover in progress needs the stream down. It ends without a user, so consumers
wait while it makes progress, and for a moment afterwards, in which the stream is started again. So it is with a stop that
has an end.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.records.control import (
    Change,
    ChangeEnd,
    ChangeInProgress,
    ChangeKind,
    Desired,
)

RESTORE_PATIENCE: Final = timedelta(hours=6)
"""Time that a restore may take. It copies and verifies a checkpoint of any size, and has no stages."""
AFTER_CHANGE: Final = timedelta(minutes=10)
"""Time from the end of a change or a stop to the start of the stream by a user or a task."""
_OF_CHECKPOINT: Final = frozenset({ChangeKind.RESTORE, ChangeKind.UNDO})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """
    A stop that a user or a change asked for.

    :param lasts: Time since the stop, or since the end of a change that came later.
    :param change: The change in progress that explains it; empty without one.
    :param grace: Time for which every consumer accepts the stop.
    """

    lasts: timedelta
    change: str = ""
    grace: timedelta = timedelta(0)

    def tolerated(self, tolerance: timedelta | None) -> str:
        """
        Return why a consumer waits for the end of the pause; empty when it does not.

        :param tolerance: How long a stop the consumer accepts.
        """
        if self.change:
            return self.change
        most = max(tolerance or timedelta(0), self.grace)
        if self.lasts >= most:
            return ""
        return f"The stop has lasted {duration_text(self.lasts)} of {duration_text(most)}."


def pause_of(
    desired: Desired,
    *,
    change: Change | None,
    progress: ChangeInProgress | None,
    end: ChangeEnd | None,
    now: datetime,
) -> Pause:
    """
    Return the pause of a stopped stream.

    :param desired: The desired state, which is "stopped".
    :param change: The newest change of the stream, and ``end`` its end where it is closed.
    :param progress: How far it has come, of an upgrade or a cutover that is not closed.
    """
    lasts = age_of(desired.at, now)
    grace = _planned(desired)
    if change is None:
        return Pause(lasts=lasts, grace=grace)
    if end is None:
        return Pause(lasts=lasts, change=_expected(change, progress, now))
    since_end = age_of(end.at, now)
    if since_end < lasts:
        return Pause(lasts=since_end, grace=AFTER_CHANGE)
    return Pause(lasts=lasts, grace=grace)


def _planned(stop: Desired) -> timedelta:
    """Return how long a stop with an end is to last, with the time of the start; zero without an end."""
    return stop.until - stop.at + AFTER_CHANGE if stop.until else timedelta(0)


def _expected(change: Change, progress: ChangeInProgress | None, now: datetime) -> str:
    if change.what is ChangeKind.REMOVE:
        return ""
    if progress is not None:
        is_expected = progress.owns_stream and not progress.is_overdue(now)
        return str(progress) if is_expected else ""
    if change.what not in _OF_CHECKPOINT or age_of(change.at, now) > RESTORE_PATIENCE:
        return ""
    return f"Change {change.number} of the stream ({change.what}) is in progress."
