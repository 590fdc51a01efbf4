"""
Which lane of a stream is live, for one who asks again and again.

A stream moves perhaps once a month, and what was recorded of it never changes, so an answer costs
one try for a newer record, and nothing at all between two tries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.files.store import Store
from airflow_streaming.home.cached import TRY_RARE_AFTER, CachedStream
from airflow_streaming.home.lanes import counting_record

SELDOM: Final = TRY_RARE_AFTER
"""Seconds between two tries of those whom nothing depends on: a cutover tends its drivers itself
until long after the pointer has moved."""


class LiveLane:
    """
    Tells which lane of a stream is live.

    :param store: The home's store.
    :param stream: Name of the stream.
    :param every: Seconds for which an answer is good enough; 0 for a new one each time.
    :param clock: Monotonic seconds.
    :raises SpecError: the name cannot be a folder.
    """

    def __init__(
        self,
        store: Store,
        stream: str,
        *,
        every: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.base = CachedStream(store, stream, clock=clock)
        self._every, self._clock = every, clock
        self._answer: tuple[str, float] | None = None
        self._moves = 0

    def __call__(self) -> str:
        """
        Return the name of the lane.

        :raises RecordError: the records that say so are lost or damaged.
        :raises HomeUnavailable: the home cannot be read, or lacks what was there before.
        """
        now = self._clock()
        if self._answer is None or now - self._answer[1] >= self._every:
            self._answer = (self._look(), now)
        return self._answer[0]

    def _look(self) -> str:
        # Once is enough: what was there is missed below.
        is_first = self._answer is None
        found = counting_record(self.base) if is_first else self.base.live_record()
        moves = 0 if found is None else found[0].number
        if moves < self._moves:
            raise HomeUnavailable(
                f"{self.base.store.uri} no longer has the records that say which lane of stream "
                f"{self.base.name!r} is live. Perhaps the home is not mounted, or was restored."
            )
        self._moves = moves
        return self.base.name if found is None else found[0].lane

    def home(self, lane: str) -> CachedStream:
        """Return the records of a lane; those of the stream itself are read once for both."""
        return self.base if lane == self.base.name else self.base.beside(lane)
