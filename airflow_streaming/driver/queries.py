"""All queries the script has started; one that is started again replaces its older run."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from airflow_streaming.driver.faults import Faults
from airflow_streaming.driver.jobs import Sight
from airflow_streaming.driver.query import QueryError
from airflow_streaming.driver.tracked import Fresh, TrackedQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """A query that failed before it was started for good."""

    name: str
    error: QueryError


class Queries:
    """The queries of this epoch, shared by the script's threads and the driver's own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._polling = threading.Lock()
        self._faults = Faults()
        self._by_name: dict[str, TrackedQuery] = {}
        self._failed: list[TrackedQuery | NotStarted] = []
        self._fresh: list[Fresh] = []
        self._shifts: dict[str, int] = {}

    def add(self, tracked: TrackedQuery) -> None:
        """Track a query that has just been started, after an older run under its name if any."""
        older = self.named(tracked.name)
        if older is not None:
            with self._polling:
                self._ask(older)
            tracked.committed_before = older.batches
        with self._lock:
            self._by_name[tracked.name] = tracked

    def all(self) -> list[TrackedQuery]:
        """Return the latest run of every query."""
        with self._lock:
            return list(self._by_name.values())

    def named(self, name: str) -> TrackedQuery | None:
        """Return the latest run under a name."""
        with self._lock:
            return self._by_name.get(name)

    @property
    def any_active(self) -> bool:
        """Tell whether a query was active when last asked."""
        return any(query.active for query in self.all())

    @property
    def first_failed(self) -> TrackedQuery | NotStarted | None:
        """Return the query that was first seen to have failed."""
        return self._failed[0] if self._failed else None

    def note_not_started(self, name: str, error: QueryError) -> None:
        """Remember that a query failed before it was started for good."""
        self._failed.append(NotStarted(name=name, error=error))

    def shift_batches(self, name: str, shift: int) -> None:
        """Say what is added to Spark's batch ids of a query that is about to start."""
        with self._lock:
            self._shifts[name] = shift

    def batch_shift(self, name: str) -> int:
        """Return what is added to Spark's batch ids of a query before its function sees them."""
        return self._shifts.get(name, 0)

    def poll(self) -> list[Fresh]:
        """Ask Spark about every active query and return the batches that are new."""
        with self._polling:
            for tracked in self.all():
                self._ask(tracked)
            fresh, self._fresh = self._fresh, []
        return fresh

    def time_work(self, sight: Sight) -> None:
        """Take the time of every query's batch in work, after a poll."""
        queries = self.all()
        processing = {query.run_id for query in queries if query.processing}
        for tracked in queries:
            with self._faults.contained(f"Timing the batch of query {tracked.name!r}"):
                tracked.time_work(sight, others=processing - {tracked.run_id})

    def _ask(self, tracked: TrackedQuery) -> None:
        with self._faults.contained(f"Asking Spark about query {tracked.name!r}"):
            self._fresh += tracked.poll()
        if tracked.error is not None and tracked not in self._failed:
            self._failed.append(tracked)
