"""
The lease of an epoch: how long its driver may run on while it is out of sight.

A driver with a lease renews it with every written heartbeat, and ends itself when no heartbeat was
written for the lease's duration. An observer that has seen a heartbeat stand still for the lease
and a margin treats that driver as ended. Clocks of two machines are never compared: each side times
a duration by its own.

The assumption: clocks of two machines run at the same speed to 1 in 100, and a driver that runs at
all comes to its watchdog within the margin. A machine that is paused together with its clocks does
not notice; then the fence protects the stream, see ``docs/lost-hosts.md``.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

USUAL_LEASE: Final = timedelta(minutes=2)
SHORTEST_LEASE: Final = timedelta(seconds=30)
"""A heartbeat comes every 2 to 10 s, and a slow store may lose a few."""
LONGEST_LEASE: Final = timedelta(days=1)
_LEAST_MARGIN: Final = timedelta(seconds=30)
_DRIFT: Final = 0.1
"""Share of the lease that is waited in addition: ten times the drift that is allowed for."""


class OnLostHost(StrEnum):
    """The handling of a stream whose driver is out of sight and silent."""

    ASK = "ask"
    """It waits until the host answers, or an operator declares the driver dead."""
    TAKEOVER = "takeover"
    """Its drivers have a lease, and a new one is started when it is over."""


def check_lease(lease: timedelta) -> None:
    """
    Check that a lease can be kept.

    :raises ValueError: it is too short or too long.
    """
    if not SHORTEST_LEASE <= lease <= LONGEST_LEASE:
        raise ValueError(f"A lease must be {SHORTEST_LEASE} to {LONGEST_LEASE}, found {lease}.")


def margin_of(lease: timedelta) -> timedelta:
    """Return how much longer than the lease a watcher waits."""
    return max(_LEAST_MARGIN, lease * _DRIFT)


def is_over(lease: timedelta | None, silent_for: timedelta) -> bool:
    """
    Tell whether a driver has ended by its own lease.

    :param lease: ``None`` for a driver without one, which never ends by it.
    :param silent_for: How long the watcher has seen its heartbeat stand still, by its own clock.
    """
    return lease is not None and silent_for >= lease + margin_of(lease)


class Instant(NamedTuple):
    """
    A moment by two clocks of the driver's host, in seconds.

    :param running: A clock that runs while the host sleeps and is never set.
    :param wall: The time of day, which jumps forward after a pause that the other clock missed.
    """

    running: float
    wall: float


class HeldLease(NamedTuple):
    """
    A lease as its driver holds it.

    :param since: A moment before the newest renewal was begun.
    """

    seconds: float
    since: Instant

    def renewed(self, begun: Instant) -> HeldLease:
        """
        Return the lease after a heartbeat was written.

        :param begun: Before the write was begun: no observer can have seen it earlier.
        """
        return HeldLease(seconds=self.seconds, since=begun)

    def left(self, now: Instant) -> float:
        """Return the seconds until the driver must have ended; 0 or less when that time is over."""
        passed = max(now.running - self.since.running, now.wall - self.since.wall)
        return self.seconds - passed
