"""
Looks at a source that may take long, in a thread of their own.

A slow disk or broker must not delay the heartbeat. A look runs at most every 30 s and at most 1 % of the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from airflow_streaming.driver.errors import ErrorBoundary

T = TypeVar("T")

EVERY: Final = 30.0
_SHARE: Final = 100


class RareLook(Generic[T]):
    """
    The newest result of a look.

    :param look: Looks; it may take long, and may raise.
    :param nothing: The result before the first look, and after a failed look.
    :param doing: The look in messages about its errors, e.g. ``Counting the files of query 'q'``.
    """

    def __init__(
        self,
        look: Callable[[], T],
        nothing: T,
        *,
        doing: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._nothing, self._doing, self._clock = look, nothing, doing, clock
        self._known = nothing
        self._next = float("-inf")
        self._thread: threading.Thread | None = None
        self._faults = ErrorBoundary()

    def known(self) -> T:
        """Return the newest result, at once; a new look is begun if it is due."""
        looking = self._thread is not None and self._thread.is_alive()
        if not looking and self._clock() >= self._next:
            self._thread = threading.Thread(
                target=self._run, name="airflow-streaming-look", daemon=True
            )
            self._next = self._clock() + EVERY
            self._thread.start()
        return self._known

    def wait(self, seconds: float) -> None:
        """Wait for the look that runs."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        begun = self._clock()
        found = self._nothing
        with self._faults.contained(self._doing):
            found = self._look()
        # Forget a result that cannot be had any more.
        self._known = found
        self._next = max(self._next, self._clock() + (self._clock() - begun) * _SHARE)
