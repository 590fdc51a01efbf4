"""
The driver's side of pauses between batches: looks for one, holds the queries, lets them continue.

The look costs one read, at an interval that an object store bears. A query that starts while a pause is open waits
before its first batch, so a driver that was started anew does not write into a pause either. The driver's end and a
home that is away never keep a query held: the first releases all queries, and the pause's length bounds the second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from airflow_streaming.driver.errors import ErrorBoundary, logger
from airflow_streaming.driver.pausing.decide import Hold, PauseView, decide_hold
from airflow_streaming.driver.pausing.query_holds import HeldQuery, QueryHolds
from airflow_streaming.exceptions import StopRequested
from airflow_streaming.model.names import Layout, number_of
from airflow_streaming.model.records.control import BatchPause, BatchPauseEnd
from airflow_streaming.model.status import PauseStatus
from airflow_streaming.model.storage import LocalStore, Store

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks for a pause, and for its end."""
LOOK_SECONDS_AWAY: Final = 10.0
"""Seconds between two looks for a pause where the home is on an object store."""
END_SECONDS_AWAY: Final = 2.0
"""Seconds between two looks for the end of an open pause there."""
_START_SECONDS: Final = 0.2
_FIRST_TRIES: Final = 5
"""Looks that a start waits for while the home does not answer; a second apart."""
_REASONS: Final = {
    Hold.CLOSED: "It was closed.",
    Hold.TOO_LATE: "The batches in work did not end in time.",
    Hold.OVER: "It has lasted as long as it may.",
}


@dataclass(slots=True)
class _Open:
    """A pause that the driver carries out."""

    pause: BatchPause
    holds: QueryHolds
    seen_at: float
    held_at: float | None = None

    def release(self) -> None:
        """Let every query continue, and wait until it can."""
        self.held_at = None
        self.holds.release()


class PauseWatch:
    """
    Looks for pauses between batches of one stream and carries them out.

    :param queries: Returns the queries of the script, after a start in progress.
    :param is_ending: Tells whether the driver is coming to its end.
    :param on_lost: Ends the driver, because a query is held that cannot be released.
    :param clock: Seconds that only rise.
    :param now: The time of day.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        *,
        queries: Callable[[], Sequence[HeldQuery]],
        is_ending: Callable[[], bool],
        on_lost: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store, self._layout, self._queries = store, layout, queries
        self._is_ending, self._on_lost = is_ending, on_lost
        self._clock, self._now = clock, now
        self._is_away = not isinstance(store, LocalStore)
        self._last: int | None = None
        """Number of the newest pause that is known."""
        self._has_looked = False
        self._open: _Open | None = None
        self._lock = threading.Lock()
        self._faults = ErrorBoundary()

    def begin(self) -> None:
        """Start to look."""
        threading.Thread(target=self._run, name="airflow-streaming-pause", daemon=True).start()

    @property
    def is_open(self) -> bool:
        """Tell whether no query may begin a batch, as far as can be seen."""
        return self._open is not None and not self._open.holds.refusal

    def status(self) -> PauseStatus | None:
        """Return the open pause for the driver's status, without waiting for a look."""
        found = self._open
        if found is None:
            return None
        now, held_at = self._clock(), found.held_at
        return PauseStatus(
            number=found.pause.number,
            is_held=held_at is not None,
            held_for_s=0.0 if held_at is None else now - held_at,
            left_s=max(0.0, self._view(found, is_closed=False).left),
            waits_for=tuple(found.holds.waiting()),
            refusal=found.holds.refusal,
        )

    def wait_to_start(self) -> None:
        """
        Wait until no pause is open; a query starts afterwards.

        :raises StopRequested: the driver is coming to its end.
        """
        # A driver that was started in a pause must know of it before its first batch.
        for _ in range(_FIRST_TRIES):
            if self._has_looked or self._is_ending():
                break
            self.look()
            if not self._has_looked:
                time.sleep(LOOK_SECONDS)
        while self.is_open:
            if self._is_ending():
                raise StopRequested("The stream is ending in a pause.")
            time.sleep(_START_SECONDS)

    def look(self) -> None:
        """Look once: find a pause, hold the queries, or let them continue."""
        with self._lock:
            with self._faults.contained("Looking for a pause"):
                if self._open is None:
                    self._find()
                self._has_looked = True
            if self._open is not None:
                self._carry_out(self._open)

    def release(self) -> None:
        """Let every query continue at once, because the driver ends; no look holds it again."""
        found = self._open
        if found is not None:
            found.release()

    def _run(self) -> None:
        while True:
            time.sleep(self._rest())
            with self._faults.contained("Carrying out a pause"):
                self.look()

    def _rest(self) -> float:
        if not self._is_away:
            return LOOK_SECONDS
        return LOOK_SECONDS_AWAY if self._open is None else END_SECONDS_AWAY

    def _find(self) -> None:
        if self._last is None:
            folder = self._layout.folder(BatchPause)
            numbers = [number_of(name) or 0 for name in self._store.names(folder)]
            newest = max(numbers, default=0)
            self._last = max(0, newest - 1)
        data = self._store.read(self._layout.place(BatchPause, number=self._last + 1))
        if data is None:
            return
        # Also a record that cannot be read: the next pause has the next number.
        self._last += 1
        pause = self._layout.parse(BatchPause, data, number=self._last)
        if self._is_closed(pause) or pause.until <= self._now():
            return
        holds = QueryHolds(self._queries, self._on_lost)
        self._open = _Open(pause, holds, seen_at=self._clock())
        logger.info("Pause %d by %s: %s", pause.number, pause.by, pause.reason)

    def _is_closed(self, pause: BatchPause) -> bool:
        place = self._layout.place(BatchPauseEnd, number=pause.number)
        return self._store.read(place) is not None

    def _carry_out(self, found: _Open) -> None:
        is_closed = False
        with self._faults.contained("Looking for the end of a pause"):
            is_closed = self._is_closed(found.pause)
        answer = decide_hold(self._view(found, is_closed=is_closed))
        if answer is not Hold.HOLD or self._is_ending():
            reason = _REASONS.get(answer, "The driver ends.")
            logger.info("Pause %d ends: %s", found.pause.number, reason)
            found.release()
            self._open = None
        elif not found.holds.refusal:
            self._hold(found)

    def _hold(self, found: _Open) -> None:
        is_held = found.holds.hold()
        if found.holds.refusal:
            logger.warning("The pause is not carried out: %s", found.holds.refusal)
        elif not is_held:
            found.held_at = None
        elif found.held_at is None:
            found.held_at = self._clock()
        if self._is_ending():
            found.release()

    def _view(self, found: _Open, *, is_closed: bool) -> PauseView:
        clock = self._clock()
        return PauseView(
            pause=found.pause,
            is_closed=is_closed,
            known_for=clock - found.seen_at,
            held_for=None if found.held_at is None else clock - found.held_at,
            now=self._now(),
        )
