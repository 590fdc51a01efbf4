"""Tells a task's log how far long work is, every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from airflow_streaming.checkpoint.progress import ProgressNow

PAUSE_SECONDS: Final = 10.0
"""A person who watches wants to see that it goes on; a log of an hour should still be read."""

_MEGABYTE: Final = 1e6


class Log(Protocol):
    """As much of a logger as is needed here; a task's is not the standard library's."""

    def info(self, text: str, /, *values: Any) -> Any:
        """Write a line."""


class Narrator:
    """
    Listens to progress, which may be told many thousand times, and logs it now and then.

    :param clock: Seconds that only rise.
    """

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._next = clock() + PAUSE_SECONDS

    def __call__(self, now: ProgressNow) -> None:
        """Hear how far a phase is."""
        if self._is_time():
            about = f" of {now.subject}" if now.subject else ""
            of = "" if now.of is None else f" of {now.of}"
            size = f", {now.size / _MEGABYTE:.1f} MB" if now.unit == "files" else ""
            self._log.info("%s%s: %d%s %s%s", now.phase, about, now.files, of, now.unit, size)

    def read(self, done: int, total: int) -> None:
        """Hear how many bytes of a store have been read."""
        if self._is_time():
            self._log.info("read: %.1f of %.1f MB", done / _MEGABYTE, total / _MEGABYTE)

    def _is_time(self) -> bool:
        if self._clock() < self._next:
            return False
        self._next = self._clock() + PAUSE_SECONDS
        return True
