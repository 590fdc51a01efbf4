"""
How long a driver's CPU time has stood still, as an observer sees it look by look.

The CPU time used since the last heartbeat does not tell: a driver that froze in the middle of a
batch had just used seconds of it, and would pass for busy for minutes to come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

BUSY_SHARE: Final = 0.005
"""A frozen JVM uses no CPU at all, an idle one 1 to 5 % of a core (measured on Spark 4.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stillness:
    """
    CPU time at the last look, and since when it has been flat.

    :param at: The look, by the observer's monotonic clock.
    :param cpu: CPU seconds used until then.
    :param since: The first look from which on next to nothing was used.
    """

    at: float
    cpu: float
    since: float

    @classmethod
    def begin(cls, at: float, cpu: float) -> Self:
        """Take a first look."""
        return cls(at=at, cpu=cpu, since=at)

    def look(self, at: float, cpu: float) -> Stillness:
        """Take another look."""
        # Of a process tree that lost a member the sum goes down, which says nothing of the others.
        is_flat = 0 <= cpu - self.cpu <= BUSY_SHARE * (at - self.at)
        return Stillness(at=at, cpu=cpu, since=self.since if is_flat else at)

    @property
    def flat_for(self) -> float:
        """Return the seconds for which it was flat at the last look."""
        return self.at - self.since
