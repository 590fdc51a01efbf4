"""
The bookkeeping of the threads that serve pages, by home.

A thread that hangs in a file system or a client cannot be ended, so threads are counted. Each home
has a share of them. If a look takes too long, its thread is written off, which makes room for the
other homes, and its home rests: until then its pages are refused at once. The number of written-off
threads is bounded for each home and for all homes together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FIRST_REST: Final = 5.0
LONGEST_REST: Final = 60.0
"""Seconds for which a home is left alone after a look that hung; doubled each time up to the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    How many threads may be in use.

    :param threads: Looks at once, at all homes.
    :param per_home: Looks at once at one home.
    :param stuck_per_home: Threads that one home may have written off at a time.
    :param stuck: Threads that all homes together may have written off at a time.
    """

    threads: int = 8
    per_home: int = 2
    stuck_per_home: int = 4
    stuck: int = 32


@dataclass(slots=True)
class _Home:
    running: int = 0
    stuck: int = 0
    hung: int = 0
    """Times that it hung in a row."""
    rests_until: float = 0.0

    @property
    def is_idle(self) -> bool:
        return not (self.running or self.stuck or self.hung)


@dataclass(slots=True)
class Slots:
    """
    Counts looks by home; every method takes the time, and none waits.

    :param limits: How many threads may be in use.
    """

    limits: Limits
    _homes: dict[str, _Home] = field(default_factory=dict)

    @property
    def running(self) -> int:
        """Looks that are running and not written off."""
        return sum(home.running for home in self._homes.values())

    @property
    def stuck(self) -> int:
        """Threads that are written off and have not come back."""
        return sum(home.stuck for home in self._homes.values())

    def rest_of(self, home: str, now: float) -> float:
        """Return for how many seconds looks at a home are refused; 0 when they are not."""
        if self.stuck >= self.limits.stuck:
            return LONGEST_REST
        known = self._homes.get(home)
        if known is None:
            return 0.0
        if known.stuck >= self.limits.stuck_per_home:
            return LONGEST_REST
        return max(0.0, known.rests_until - now)

    def may_start(self, home: str, now: float) -> bool:
        """Tell whether a look at a home may be started at once."""
        if self.running >= self.limits.threads or self.rest_of(home, now):
            return False
        known = self._homes.get(home)
        if known is None:
            return True
        # After a rest one look finds out whether the home is back.
        return known.running < (1 if known.hung else self.limits.per_home)

    def start(self, home: str) -> None:
        """Count a look that is started."""
        self._homes.setdefault(home, _Home()).running += 1

    def write_off(self, home: str, now: float) -> None:
        """Give up a look that hangs: its thread is not waited for, and its home rests."""
        known = self._homes[home]
        known.running -= 1
        known.stuck += 1
        if now >= known.rests_until:  # the others that were running then hang for the same reason
            known.hung += 1
            known.rests_until = now + min(FIRST_REST * 2 ** (known.hung - 1), LONGEST_REST)

    def finish(self, home: str, *, answered: bool, was_stuck: bool) -> None:
        """
        Count a look that has come back.

        :param answered: The home could be read.
        :param was_stuck: It had been written off.
        """
        known = self._homes[home]
        if was_stuck:
            known.stuck -= 1
        else:
            known.running -= 1
        if answered:
            known.hung, known.rests_until = 0, 0.0
        if known.is_idle:
            del self._homes[home]
