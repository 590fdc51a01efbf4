"""
Standing of a cutover: what a keep-alive task has to know of one that is open.

Until blue is asked to stop, a cutover takes nothing from it, and its keep-alive task goes on as
always. From then on there is a time in which no driver, or another lane's, has to run, and only the
cutover knows which; so keep-alive tasks of either lane look on until it is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.core.cutover.table import CutoverState

_HANDS_OFF: Final = frozenset(
    {
        CutoverState.DRAINING,
        CutoverState.SWITCHING,
        CutoverState.LIVE,
        CutoverState.SOAKING,
        CutoverState.FINALISING,
        CutoverState.ABORTING,
        CutoverState.ROLLING_BACK,
    }
)
_USUAL: Final = timedelta(minutes=30)
_WHILE_NOBODY_ELSE_ACTS: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverStanding:
    """
    A cutover that was not closed, as one of its lanes sees it.

    :param change: Number of the change in the lane that looks.
    :param green: Name of the lane that is to become live; empty when its terms cannot be read.
    :param state: Where the cutover is, and ``since`` when.
    :param deadline: How long it may be there before it gives up by itself.
    """

    change: int
    state: CutoverState
    since: datetime
    green: str = ""
    deadline: timedelta = timedelta(0)

    def __str__(self) -> str:
        towards = f"cutover to {self.green}" if self.green else "cutover"
        which, state = f"Change {self.change} ({towards})", self.state.value.replace("_", " ")
        if self.state.is_end:
            return f"{which} has come to its end and was not closed: {state}."
        return f"{which} is in progress: {state}."

    @property
    def rule(self) -> str:
        """Return the name under which people are told that nobody seems to be at it."""
        return "unfinished_cutover"

    @property
    def owns_stream(self) -> bool:
        """Tell whether only the cutover may start a driver now."""
        return self.state in _HANDS_OFF

    @property
    def patience(self) -> timedelta:
        """Return how long it may be where it is before people are told."""
        # What has ended has one thing left, to let a driver at the barrier go on; see ``decide``.
        is_urgent = self.owns_stream or self.state.is_end
        return self.deadline + (_WHILE_NOBODY_ELSE_ACTS if is_urgent else _USUAL)

    def is_overdue(self, now: datetime) -> bool:
        """Tell whether nothing has come of it for so long that nobody seems to be at it."""
        return now - self.since > self.patience
