"""Hold every query of the script between two batches, and let all of them continue together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from airflow_streaming.driver.pausing.batch_lock import BatchLock, QueryHold

_RELEASE_SECONDS: Final = 2.0


class HeldQuery(Protocol):
    """As much of a tracked query as a hold needs."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def run_id(self) -> str:
        """Return the id of its run."""

    def is_running(self) -> bool:
        """Tell whether Spark runs it."""

    def batch_lock(self) -> BatchLock:
        """Return Spark's lock of its batches."""

    def note_pause(self, seconds: float | None) -> None:
        """Take note of the begin of a pause, or of its length."""


class QueryHolds:
    """
    The holders of all queries.

    :param queries: Returns the queries of the script, after a start in progress.
    :param on_lost: Ends the driver, because a query is held that cannot be released.
    """

    def __init__(
        self, queries: Callable[[], Sequence[HeldQuery]], on_lost: Callable[[str], object]
    ) -> None:
        self._queries, self._on_lost = queries, on_lost
        self._holds: dict[str, tuple[HeldQuery, QueryHold]] = {}
        """By run, each query with its holder."""
        self.refusal = ""
        """Why a query cannot be held, as a sentence; none is held then."""

    def hold(self) -> bool:
        """Hold the queries that run and are not held yet; tell whether all are between two batches."""
        for query in self._queries():
            known = self._holds.get(query.run_id)
            if (known is not None and not known[1].is_over) or not query.is_running():
                continue
            lock = query.batch_lock()
            if refusal := lock.refusal():
                self.refusal = f"Query {query.name!r} {refusal}."
                self.release()
                return False
            hold = QueryHold(
                query.name,
                lock,
                is_active=query.is_running,
                on_lost=self._on_lost,
                note=query.note_pause,
            )
            self._holds[query.run_id] = query, hold
            hold.begin()
        return not self.waiting()

    def waiting(self) -> list[str]:
        """Return the queries that run and are not held."""
        pairs = list(self._holds.values())
        return [query.name for query, hold in pairs if not hold.is_held and query.is_running()]

    def release(self) -> None:
        """Let every query continue, and wait until it can."""
        holders = [hold for _, hold in self._holds.values()]
        for hold in holders:
            hold.release()
        for hold in holders:
            hold.wait(_RELEASE_SECONDS)
