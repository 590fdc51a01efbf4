"""
Why the driver is coming to its end; the first word stands.

A stop and a failure bring the queries down the same way. What differs is the time they are given
and what is written about it afterwards.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

FAILURE_GRACE: Final = 30.0
"""Seconds the other queries have to end after one has failed; a restart replays them exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """
    A wish that the stream stops.

    :param grace: Seconds it may take.
    """

    by: str
    reason: str
    grace: float


class Ending:
    """Set once, by whoever is first; read by every thread of the driver."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.stop: Stop | None = None
        self.refusal: str | None = None
        self.grace = FAILURE_GRACE
        self._lock = threading.Lock()

    def ask_stop(self, stop: Stop) -> bool:
        """Begin the end because somebody asked; False when it had begun already."""
        with self._lock:
            if self.begun.is_set():
                return False
            self.stop, self.grace = stop, stop.grace
            self.begun.set()
            return True

    def fail(self) -> bool:
        """Begin the end because the script or a query failed."""
        with self._lock:
            if self.begun.is_set():
                return False
            self.begun.set()
            return True

    def refuse(self, sentence: str) -> None:
        """Begin the end because the script asked for what is not allowed, even if it carries on."""
        with self._lock:
            if self.refusal is None and self.stop is None:
                self.refusal = sentence
            self.begun.set()
