"""
What an engine remembers beside the records; tasks and triggers hand it to one another as a dict.

Whoever forgets it does no harm: a silence, an error or a deadline is counted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

LANES: Final = "lanes"
"""What the observers have learnt by listening, by lane."""

ERRORS: Final = "errors"
"""Errors of measuring in a row, by stream."""

STEP: Final = "step"
"""For how long the newest step has been seen."""


class StepSeen:
    """
    For how long somebody has seen the newest step of a cutover, by his own clock.

    :param memory: Where another one left off; the time in which nobody looked is not counted.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self, memory: Mapping[str, Any] | None = None, *, clock: Callable[[], float]
    ) -> None:
        known = memory or {}
        self._clock = clock
        self._newest = (int(known.get("change", 0)), int(known.get("step", 0)))
        self._since = clock() - float(known.get("seen_for", 0))

    def seen_for(self, change: int, step: int) -> timedelta:
        """Return for how long a step has been seen to be the newest one."""
        clock = self._clock()
        if self._newest != (change, step):
            self._newest, self._since = (change, step), clock
        return timedelta(seconds=clock - self._since)

    def memory(self) -> dict[str, Any]:
        """Return what was seen, for the next one to go on from."""
        change, step = self._newest
        return {"change": change, "step": step, "seen_for": self._clock() - self._since}
