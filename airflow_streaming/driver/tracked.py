"""One query of the script: what the driver has learnt of it, beat by beat."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_streaming.core.failures.text import mask_secrets
from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.core.status import CheckpointOrigin, QueryStatus
from airflow_streaming.driver.checkpoint import batch_in_work
from airflow_streaming.driver.failed_batch import offsets_of
from airflow_streaming.driver.faults import Faults
from airflow_streaming.driver.files_waiting import FilesWaiting, is_file_source, with_files
from airflow_streaming.driver.jobs import Sight, Work
from airflow_streaming.driver.query import Query, QueryError
from airflow_streaming.driver.work import Beat, TriggerRun, WorkClock
from airflow_streaming.files.store import Store

_MAX_MESSAGE: Final = 200
"""Characters of Spark's status message; a failed query's would repeat its whole error."""

_DURATIONS: Final = 20
"""Batches whose durations are told."""

_QUIET: Final = 5.0
"""Seconds without a sign of work after which the running tasks are looked at more closely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """
    A batch that was not known before.

    :param progress: Its figures.
    :param report: The whole progress, as Spark's JSON gives it.
    """

    progress: BatchProgress
    report: Mapping[str, Any]


def has_run_a_batch(progress: Mapping[str, Any]) -> bool:
    """
    Tell a batch's progress from that of a look that found nothing to do.

    A look reports the id of the batch that would have been next, which then comes a second time.
    """
    return bool(progress.get("numInputRows")) or "addBatch" in (progress.get("durationMs") or {})


class TrackedQuery:
    """
    A query started by the script and what is known of it.

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
    ) -> None:
        self.query, self.name, self.id, self.run_id = query, name, id, run_id
        self.checkpoint, self.files, self.origin, self.gated = checkpoint, files, origin, gated
        self.batch_shift = batch_shift
        self.active = True
        self.error: QueryError | None = None
        self.held = False
        """The gate has refused a batch, so that the error which ends the query is ours."""
        self._faults = Faults()
        self.committed_before = 0
        """Batches that older runs under this name committed in this epoch."""
        self._first: int | None = None
        self._last: int | None = None
        self._told: Mapping[str, Any] = {}
        self._progress: BatchProgress | None = None
        self._durations: deque[int] = deque(maxlen=_DURATIONS)
        self._interval: float | None = None
        self._asked_interval = False
        self._clock = WorkClock()
        self._files = FilesWaiting(query.files_waiting, name=name)

    @property
    def processing(self) -> bool:
        """Tell whether a batch was in work when last asked."""
        return self.active and bool(self._told.get("isTriggerActive"))

    @property
    def batches(self) -> int:
        """Return the batches committed in this epoch, as far as seen."""
        if self._first is None or self._last is None:
            return self.committed_before
        return self.committed_before + self._last - self._first + 1

    def poll(self) -> list[Fresh]:
        """Ask Spark how the query does and return the batches that are new since the last time."""
        if not self.active:
            return []
        fresh: list[Fresh] = []
        # Asked first: a query that ends between two questions has told its last progress by then.
        active = self.query.is_active()
        with self._faults.contained(f"Reading the progress of query {self.name!r}"):
            fresh = self._fresh_progress()
        with self._faults.contained(f"Reading the status of query {self.name!r}"):
            self._told = self.query.status()
        with self._faults.contained(f"Reading the trigger of query {self.name!r}"):
            if not self._asked_interval:
                self._interval = self.query.trigger_interval()
                self._asked_interval = True
        if not active:
            self.error = self._why()
            self.active = False
        return fresh

    def time_work(self, sight: Sight, *, others: Collection[str]) -> None:
        """
        Take the time of the batch in work, after a poll.

        :param others: Run ids of other queries that are processing.
        """
        run, work = None, Work()
        if self.processing:
            run = TriggerRun()
            with self._faults.contained(f"Reading the batch of query {self.name!r}"):
                run = self.query.trigger_run()
            with self._faults.contained(f"Reading the tasks of query {self.name!r}"):
                quiet = (self._clock.quiet_for_s or 0.0) >= _QUIET
                work = sight.work_of(self.run_id, others=others, quiet=quiet)
        self._clock.step(
            Beat(
                at=sight.at,
                run=run,
                batches=self.batches,
                marks=work.marks,
                moved=work.moved,
                active_tasks=work.active_tasks,
                cpu=sight.cpu,
                ready=not self.processing and bool(self._told.get("isDataAvailable")),
                alone=not others,
            )
        )

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
            progress=None if self._progress is None else self._with_files(self._progress),
            error=None if self.error is None else self.error.message,
            processing_interval_s=self._interval,
            recent_durations_ms=tuple(self._durations),
            planned_batch=self._clock.planned_batch,
            batch_for_s=self._clock.batch_for_s,
            quiet_for_s=self._clock.quiet_for_s,
            committed_ago_s=self._clock.committed_ago_s,
            ready_for_s=self._clock.ready_for_s,
            batch_shift=self.batch_shift,
            active_tasks=self._clock.active_tasks,
        )

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
        return replace(found, batch_id=batch, offsets=offsets)

    def _fresh_progress(self) -> list[Fresh]:
        last = self.query.last_batch()
        if last is None or (self._last is not None and last <= self._last):
            return []
        latest = None if self._last is None else last - self._last
        told = [report for report in self.query.progress(latest) if has_run_a_batch(report)]
        fresh = [
            Fresh(progress=BatchProgress.from_spark(self.name, report), report=report)
            for report in told
        ]
        fresh = [f for f in fresh if self._last is None or f.progress.batch_id > self._last]
        if fresh:
            newest = fresh[-1].progress
            self._first = fresh[0].progress.batch_id if self._first is None else self._first
            self._last, self._progress = newest.batch_id, newest
            self._durations.extend(batch.progress.duration_ms for batch in fresh)
        return [replace(batch, progress=self._with_files(batch.progress)) for batch in fresh]

    def _with_files(self, figures: BatchProgress) -> BatchProgress:
        if not any(map(is_file_source, figures.sources)):
            return figures
        waiting = self._files.known()
        return replace(figures, sources=tuple(with_files(s, waiting) for s in figures.sources))
