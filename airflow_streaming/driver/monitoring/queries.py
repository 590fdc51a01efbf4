"""
The queries of the script: their state, their figures, and why they ended.

Progress is polled. A Python ``StreamingQueryListener`` would be called by the JVM for every batch
and turn each event into Python objects with dozens of calls back into the JVM, while the batch
after it already runs; polling takes a dozen calls of a tenth of a millisecond every two seconds,
and about a millisecond for each new batch. ``benchmarks/listener.py`` compares the two, and
``benchmarks/beat.py`` times a beat. Polling also proves at every
beat that the JVM answers, and an error on the way loses nothing: the JVM keeps the latest hundred.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_streaming.driver.checkpoint.checkpoint_claims import batch_in_work
from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.driver.monitoring.activity import (
    ActivitySnapshot,
    BatchActivity,
    Beat,
    TriggerRun,
    Work,
)
from airflow_streaming.driver.monitoring.bad_rows import bad_rows
from airflow_streaming.driver.monitoring.broker_reach import BrokerReach
from airflow_streaming.driver.monitoring.epochs import CommittedEpochs
from airflow_streaming.driver.monitoring.failed_batch import files_of, offsets_of
from airflow_streaming.driver.monitoring.kafka_places import KafkaPlace, explained, may_be_outage
from airflow_streaming.driver.monitoring.spark_query import Query, QueryError, has_run_a_batch
from airflow_streaming.driver.pausing.batch_lock import BatchLock
from airflow_streaming.driver.sources.file_backlog import (
    Waiting,
    is_file_source,
    with_files,
)
from airflow_streaming.driver.sources.rare_look import RareLook
from airflow_streaming.driver.sources.source_outlook import with_outlook
from airflow_streaming.model.products.retention import Outlook
from airflow_streaming.model.progress import BatchProgress, objects
from airflow_streaming.model.spark.failure_signs import Hint, hints
from airflow_streaming.model.spark.failures import mask_secrets, presentable
from airflow_streaming.model.status import CheckpointOrigin, QueryStatus
from airflow_streaming.model.storage import Store

_MAX_MESSAGE: Final = 200
"""Characters of Spark's status message; a failed query's would repeat its whole error."""
_DURATIONS: Final = 20
"""Number of batch durations in the status."""
_QUIET: Final = 5.0
"""Seconds without a sign of work before the running tasks are read in more detail."""
_ASKING: Final = 5.0
"""Seconds that the brokers of a failed query get to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """
    A batch that was not known before.

    :param report: The whole progress, as Spark's JSON gives it.
    """

    progress: BatchProgress
    report: Mapping[str, Any]


class TrackedQuery:
    """
    A query started by the script, with its state.

    :param files: The checkpoint as a store.
    :param gated: It runs the script's ``foreachBatch`` function, behind our gate.
    """

    def __init__(
        self,
        query: Query,
        *,
        name: str,
        id: str,
        run_id: str,
        checkpoint: str,
        files: Store,
        origin: CheckpointOrigin,
        gated: bool,
        batch_shift: int = 0,
        reach: BrokerReach | None = None,
    ) -> None:
        self.query, self.name, self.id, self.run_id = query, name, id, run_id
        self.checkpoint, self.files, self.origin, self.gated = checkpoint, files, origin, gated
        self.batch_shift = batch_shift
        self.active = True
        self.error: QueryError | None = None
        self.held = False
        """The gate has refused a batch, so that the error which ends the query is ours."""
        self.unbegun: int | None = None
        """The batch that the gate has refused, if this driver was the first to plan it."""
        self._faults = ErrorBoundary()
        self.committed_before = 0
        """Batches that older runs under this name committed in this epoch."""
        self._first: int | None = None
        self._last: int | None = None
        self._told: Mapping[str, Any] = {}
        self._progress: BatchProgress | None = None
        self._durations: deque[int] = deque(maxlen=_DURATIONS)
        self._interval: float | None = None
        self._epoch_interval: float | None = None
        self._checkpoint_interval: float | None = None
        self._epochs: CommittedEpochs | None = None
        """Of a continuous query, of which Spark reports no batch."""
        self._asked_interval = False
        self._clock = BatchActivity()
        none: Mapping[str, Waiting] = {}
        self._files = RareLook(
            lambda: query.files_waiting(self._ends),
            none,
            doing=f"Counting the files that wait for query {name!r}",
        )
        unasked: Mapping[str, Outlook] = {}
        self._outlooks = RareLook(
            lambda: query.outlooks(self._ends),
            unasked,
            doing=f"Asking what the sources of query {name!r} keep",
        )
        self._ends: Mapping[str, Any] = {}
        """End offsets of the latest batch, by the source's description."""
        self._kept_for: tuple[tuple[str, float], ...] = ()
        self._is_paused = False
        self._paused_ms = 0.0
        """Length of pauses that Spark counts as time of the next batch."""
        self.places: tuple[KafkaPlace, ...] = ()
        """Topics of its sources and sink, once its plan is known."""
        self._reach = reach or BrokerReach()

    def is_running(self) -> bool:
        """Ask Spark whether it runs; as last known where Spark does not answer."""
        with self._faults.contained(f"Asking query {self.name!r} whether it runs"):
            return self.query.is_active()
        return self.active

    def batch_lock(self) -> BatchLock:
        """Return the lock between the plan and the commit of its batches."""
        return self.query.batch_lock()

    def java_query(self) -> Any:
        """Return Spark's query."""
        return self.query.java_query()

    def note_pause(self, seconds: float | None) -> None:
        """Take note that a pause holds the query, or of the length of a pause that has ended."""
        self._is_paused = seconds is None
        self._paused_ms += 1000 * (seconds or 0.0)

    @property
    def processing(self) -> bool:
        """Tell whether a batch was in work when last asked."""
        return self.active and bool(self._told.get("isTriggerActive"))

    @property
    def batches(self) -> int:
        """Return the batches, or Spark's epochs, committed in this epoch, as far as seen."""
        if self._epochs is not None:
            return self.committed_before + self._epochs.count
        if self._first is None or self._last is None:
            return self.committed_before
        return self.committed_before + self._last - self._first + 1

    @property
    def commits_epochs(self) -> bool:
        """Tell whether it is continuous and has been seen to commit."""
        return self._epochs is not None and self._epochs.count > 0

    @property
    def boundary_in_s(self) -> float | None:
        """Return the seconds until a batch in real-time mode is due to commit; ``None`` for another query."""
        if self._checkpoint_interval is None:
            return None
        return max(0.0, self._checkpoint_interval - (self._clock.batch_for_s or 0.0))

    def poll(self) -> list[NewBatch]:
        """Ask Spark how the query does and return the batches that are new since the last time."""
        fresh: list[NewBatch] = []
        # Asked first: a query that ends between two questions has told its last progress by then.
        active = self.active and self.query.is_active()
        with self._faults.contained(f"Reading the progress of query {self.name!r}"):
            fresh = self._fresh_progress()
        if not self.active:
            # A stopped query counts as inactive before its last batch is finished and reported.
            return fresh
        with self._faults.contained(f"Reading the status of query {self.name!r}"):
            self._told = self.query.status()
        with self._faults.contained(f"Reading the trigger of query {self.name!r}"):
            if not self._asked_interval:
                self._interval = self.query.trigger_interval()
                self._epoch_interval = self.query.epoch_interval()
                self._checkpoint_interval = self.query.checkpoint_interval()
                if self._epoch_interval is not None:
                    self._epochs = CommittedEpochs(self.files, name=self.name)
                self._asked_interval = True
                self._kept_for = self.query.kept_for()
        if self._epochs is not None:
            self._epochs.look()
        if not active:
            self.error = self._why()
            self.active = False
        return fresh

    def time_work(self, snapshot: ActivitySnapshot, *, others: Collection[str]) -> None:
        """
        Take the time of the batch in work, after a poll.

        :param others: Run ids of other queries that are processing.
        """
        if self._is_paused:
            return
        run, work = None, Work()
        if self.processing:
            run = TriggerRun()
            with self._faults.contained(f"Reading the batch of query {self.name!r}"):
                run = self.query.trigger_run()
            with self._faults.contained(f"Reading the tasks of query {self.name!r}"):
                quiet = (self._clock.quiet_for_s or 0.0) >= _QUIET
                work = snapshot.work_of(self.run_id, others=others, quiet=quiet)
        self._clock.step(
            Beat(
                at=snapshot.at,
                run=run,
                batches=self.batches,
                marks=work.marks,
                moved=work.moved,
                active_tasks=work.active_tasks,
                cpu=snapshot.cpu,
                ready=not self.processing and bool(self._told.get("isDataAvailable")),
                alone=not others,
            )
        )
        if self.places:
            is_quiet = (self._clock.quiet_for_s or 0.0) >= _QUIET
            self._reach.look(self.places, waits=self.active and (is_quiet or self._asks_source))

    def as_status(self) -> QueryStatus:
        """Return the query as a part of the driver's status."""
        message = mask_secrets(str(self._told.get("message", ""))[:_MAX_MESSAGE])
        return QueryStatus(
            name=self.name,
            id=self.id,
            run_id=self.run_id,
            checkpoint=self.checkpoint,
            checkpoint_origin=self.origin,
            active=self.active,
            processing=bool(self._told.get("isTriggerActive")),
            data_available=bool(self._told.get("isDataAvailable")),
            message="Stopped at a batch boundary." if self.held else message,
            batches=self.batches,
            progress=None if self._progress is None else self._with_sources(self._progress),
            error=None if self.error is None else self.error.message,
            processing_interval_s=self._interval,
            recent_durations_ms=tuple(self._durations),
            planned_batch=self._clock.planned_batch,
            batch_for_s=self._clock.batch_for_s,
            quiet_for_s=self._clock.quiet_for_s,
            committed_ago_s=self._committed_ago_s,
            ready_for_s=self._clock.ready_for_s,
            batch_shift=self.batch_shift,
            epoch_interval_s=self._epoch_interval,
            checkpoint_interval_s=self._checkpoint_interval,
            active_tasks=self._clock.active_tasks,
            refusal=self._reach.refusal,
            refused_for_s=self._reach.refused_for,
        )

    @property
    def _committed_ago_s(self) -> float | None:
        return self._clock.committed_ago_s if self._epochs is None else self._epochs.committed_ago_s

    @property
    def _asks_source(self) -> bool:
        return hints(str(self._told.get("message", "")), Hint.AT_SOURCE)

    def _why(self) -> QueryError | None:
        if self.held:
            return None
        found = self.query.error()
        if found is None:
            return None
        batch = None if self._last is None else self._last + 1
        offsets: tuple[str, ...] = ()
        with self._faults.contained(f"Reading the checkpoint of query {self.name!r}"):
            if batch is None:
                batch = batch_in_work(self.files)
            offsets = () if batch is None else offsets_of(self.files, batch)
        found = replace(found, batch_id=batch, offsets=offsets, rows=self._rows(found, batch))
        refusal = self._reach.ask(self.places, _ASKING) if may_be_outage(found, self.places) else ""
        return explained(found, self.places, refusal)

    def _rows(self, error: QueryError, batch: int | None) -> tuple[str, ...]:
        if batch is None or error.value is None:
            return ()
        with self._faults.contained(f"Looking for the bad rows of query {self.name!r}"):
            return tuple(map(presentable, bad_rows(error.value, files_of(self.files, batch))))
        return ()

    def _fresh_progress(self) -> list[NewBatch]:
        last = self.query.last_batch()
        if last is None or (self._last is not None and last <= self._last):
            return []
        latest = None if self._last is None else last - self._last
        told = [report for report in self.query.progress(latest) if has_run_a_batch(report)]
        fresh = [
            NewBatch(
                progress=self._without_pause(BatchProgress.from_spark(self.name, report)),
                report=report,
            )
            for report in told
        ]
        fresh = [f for f in fresh if self._last is None or f.progress.batch_id > self._last]
        if fresh:
            newest = fresh[-1].progress
            self._first = fresh[0].progress.batch_id if self._first is None else self._first
            self._last, self._progress = newest.batch_id, newest
            self._ends = _ends_of(fresh[-1].report)
            self._durations.extend(batch.progress.duration_ms for batch in fresh)
        return [replace(batch, progress=self._with_sources(batch.progress)) for batch in fresh]

    def _without_pause(self, figures: BatchProgress) -> BatchProgress:
        """Return the figures of a batch without the pause before it: its trigger had begun when the pause did."""
        left = figures.duration_ms - int(self._paused_ms)
        if not self._paused_ms or left < 0:
            return figures
        self._paused_ms = 0.0
        rate = 1000 * figures.input_rows / left if left else None
        return replace(figures, duration_ms=left, processed_rows_per_second=rate)

    def _with_sources(self, figures: BatchProgress) -> BatchProgress:
        """Return figures with the parts that Spark does not report of their sources."""
        waiting = self._files.known() if any(map(is_file_source, figures.sources)) else {}
        outlooks, now = self._outlooks.known() if self._ends else {}, time.time()
        sources = (
            with_outlook(source, outlooks, waiting, self._kept_for, now)
            for source in figures.sources
        )
        return replace(figures, sources=tuple(with_files(s, waiting) for s in sources))


def _ends_of(report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(one.get("description")): one.get("endOffset") for one in objects(report.get("sources"))
    }


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
        self._faults = ErrorBoundary()
        self._by_name: dict[str, TrackedQuery] = {}
        self._failed: list[TrackedQuery | NotStarted] = []
        self._fresh: list[NewBatch] = []
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
    def commits_epochs(self) -> bool:
        return any(query.commits_epochs for query in self.all())

    @property
    def first_failed(self) -> TrackedQuery | NotStarted | None:
        return self._failed[0] if self._failed else None

    def note_not_started(self, name: str, error: QueryError) -> None:
        """Remember that a query failed before it was started for good."""
        self._failed.append(NotStarted(name=name, error=error))

    def shift_batches(self, name: str, shift: int) -> None:
        """Set the shift of Spark's batch ids for a query that is about to start."""
        with self._lock:
            self._shifts[name] = shift

    def note_places(self, name: str, places: tuple[KafkaPlace, ...]) -> None:
        """Say which topics a query reads and writes; its plan tells, soon after its start."""
        tracked = self.named(name)
        if tracked is not None:
            tracked.places = places

    def batch_shift(self, name: str) -> int:
        """Return the shift of Spark's batch ids for a query's function."""
        return self._shifts.get(name, 0)

    def poll(self) -> list[NewBatch]:
        """Ask Spark about every active query and return the batches that are new."""
        with self._polling:
            for tracked in self.all():
                self._ask(tracked)
            fresh, self._fresh = self._fresh, []
        return fresh

    def time_work(self, snapshot: ActivitySnapshot) -> None:
        """Take the time of every query's batch in work, after a poll."""
        queries = self.all()
        processing = {query.run_id for query in queries if query.processing}
        for tracked in queries:
            with self._faults.contained(f"Timing the batch of query {tracked.name!r}"):
                tracked.time_work(snapshot, others=processing - {tracked.run_id})

    def _ask(self, tracked: TrackedQuery) -> None:
        with self._faults.contained(f"Asking Spark about query {tracked.name!r}"):
            self._fresh += tracked.poll()
        if tracked.error is not None and tracked not in self._failed:
            self._failed.append(tracked)
