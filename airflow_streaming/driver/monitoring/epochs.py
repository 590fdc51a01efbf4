"""
The epochs that a continuous query commits.

Spark reports no progress of such a query, from 3.5 to 4.3. Its commit log is the only sign that it works: Spark
writes an entry for every epoch, also while no row comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_streaming.driver.checkpoint.checkpoint_claims import batches_reached
from airflow_streaming.driver.sources.rare_look import RareLook
from airflow_streaming.model.storage import Store


class CommittedEpochs:
    """
    Counts the epochs of one query since the first look at its commit log.

    A slow store must not hold up the heartbeat, so the log is listed in a thread, every 30 s at most.
    """

    def __init__(
        self, files: Store, *, name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files, self._clock = files, clock
        self._looks = RareLook(
            self._newest, None, doing=f"Reading the commit log of query {name!r}", clock=clock
        )
        self._first: int | None = None
        self._last: int | None = None
        self._moved_at = clock()

    @property
    def count(self) -> int:
        if self._first is None or self._last is None:
            return 0
        return self._last - self._first

    @property
    def committed_ago_s(self) -> float:
        """Return the seconds since the log was last seen longer than before, or since the start."""
        return self._clock() - self._moved_at

    def look(self) -> None:
        """Take the newest entry that is known; a new look is begun if it is due."""
        found = self._looks.known()
        if found is None or found == self._last:
            return
        self._first = found if self._first is None else self._first
        self._last, self._moved_at = found, self._clock()

    def wait(self, seconds: float) -> None:
        """Wait for the look that runs."""
        self._looks.wait(seconds)

    def _newest(self) -> int | None:
        committed = batches_reached(self._files).committed
        # A log without an entry: the first epoch that comes is the first one.
        return -1 if committed is None else committed
