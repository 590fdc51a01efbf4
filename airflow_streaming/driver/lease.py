"""
The driver's side of a lease: heartbeats renew it, and the driver ends when they stop.

The watchdog reads neither the JVM nor the home: it compares two clocks, and kills. The
clock since boot includes the time of a suspended host. The time of day jumps if a host was paused
together with its clocks. The clock that has advanced further counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from airflow_streaming.driver.errors import logger
from airflow_streaming.driver.shutdown import FENCED_CODE, HardExit
from airflow_streaming.model.lease import HeldLease, Instant

_LOOK_SECONDS: Final = 0.5


def instant() -> Instant:
    """Return this moment by the clock that runs in sleep, where the system has one, and the day's."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return Instant(running=time.clock_gettime(clock), wall=time.time())


class LeaseKeeper:
    """
    Holds the lease of one driver.

    :param lease: Since before the driver looked for a newer epoch.
    :param last_word: Writes the exit record, if it still can be.
    """

    def __init__(
        self,
        lease: HeldLease,
        *,
        leaving: HardExit,
        last_word: Callable[[], None],
        now: Callable[[], Instant] = instant,
    ) -> None:
        self._lease, self._leaving, self._last_word, self._now = lease, leaving, last_word, now
        self._held = threading.Event()

    def begin(self) -> None:
        """Start the watchdog."""
        threading.Thread(target=self._watch, name="airflow-streaming-lease", daemon=True).start()

    def renew(self, begun: Instant) -> None:
        """Take note that a heartbeat was written, which was begun then."""
        self._lease = self._lease.renewed(begun)
        self._held.set()

    def wait_until_held(self) -> None:
        """Wait for the first heartbeat; the watchdog ends the driver when none gets written."""
        self._held.wait()

    def check(self) -> None:
        """Return if the lease is not over; otherwise do not return."""
        if self._lease.left(self._now()) <= 0:
            logger.error(
                "No heartbeat could be written for %.0f s, as long as the lease. Ending at once.",
                self._lease.seconds,
            )
            self._leaving.at_once(self._last_word, lambda: FENCED_CODE)

    def _watch(self) -> None:
        while True:
            self.check()
            time.sleep(_LOOK_SECONDS)
