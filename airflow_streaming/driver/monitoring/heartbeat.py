"""
The driver's heartbeat: ``status.json``, and new rows for the history of its epoch.

Every beat calls the JVM before it writes, so a frozen JVM stops the heartbeat although this process
lives. Any other fault, in our own code or in the home, is logged and does not disturb the queries;
it costs a beat, not a batch.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.errors import ErrorBoundary, logger
from airflow_streaming.driver.exit_status import ShutdownState
from airflow_streaming.driver.jvm import CpuMeter, JvmView
from airflow_streaming.driver.launch_context import LaunchContext
from airflow_streaming.driver.lease import instant
from airflow_streaming.driver.monitoring.activity import JobsView
from airflow_streaming.driver.monitoring.executors import ExecutorsView
from airflow_streaming.driver.monitoring.history import History
from airflow_streaming.driver.monitoring.queries import NewBatch, Queries
from airflow_streaming.driver.pausing.pause_watch import PauseWatch
from airflow_streaming.driver.resizing.resize_watch import ResizeWatch
from airflow_streaming.driver.sinks.outlet import Sinks
from airflow_streaming.driver.sinks.port import Origin
from airflow_streaming.driver.standby.barrier import StandbyBarrier
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.host import this_host
from airflow_streaming.model.lease import Instant
from airflow_streaming.model.names import Layout
from airflow_streaming.model.status import DriverState, Status
from airflow_streaming.model.storage import Store

BEAT_SECONDS: Final = 2.0
_SHARE: Final = 20
"""A beat rests at least this many times as long as it worked: it never takes more than 5 % of a
core, however many queries there are."""
_LONGEST_REST: Final = 10.0
"""Seconds; well below the silence that makes a driver look hung."""


def rest_after(worked: float) -> float:
    return min(max(BEAT_SECONDS, worked * _SHARE), _LONGEST_REST)


class Report:
    """
    Writes the status of one epoch.

    :param jvm: Called to prove that Spark answers.
    :param on_failure: Called when a query has failed.
    :param barrier: Where the queries of a standby driver wait.
    :param sinks: Receive every batch as well; by default the sinks of Spark's configuration.
    :param on_written: Called for every heartbeat that was written, with the time before the write.
    """

    pauses: PauseWatch | None = None
    """Pauses between batches, for the status."""
    resizes: ResizeWatch | None = None
    """Changes of the size, for the status."""

    def __init__(
        self,
        assignment: LaunchContext,
        store: Store,
        *,
        queries: Queries,
        claims: Claims,
        ending: ShutdownState,
        jvm: JvmView,
        on_failure: Callable[[], object],
        barrier: StandbyBarrier | None = None,
        sinks: Sinks | None = None,
        on_written: Callable[[Instant], object] | None = None,
    ) -> None:
        self._on_written, self._store = on_written, store
        self._queries, self._claims, self._ending, self._jvm = queries, claims, ending, jvm
        self._on_failure, self._barrier = on_failure, barrier
        self._jobs = JobsView(CpuMeter(lambda: jvm.pid).seconds)
        self._executors = ExecutorsView(self._jobs, time.monotonic)
        self._given_sinks, self._host = sinks, this_host()
        self._assign(assignment)
        self._spark_version = _pyspark_version() or assignment.deployment.spark_version
        self._first_progress_at: datetime | None = None
        self._faults = ErrorBoundary()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="airflow-streaming-beat", daemon=True
        )

    def _assign(self, assignment: LaunchContext) -> None:
        layout, number = Layout(assignment.epoch.stream), assignment.epoch.number
        self._assignment, self._path = assignment, layout.place(Status, epoch=number)
        self._history = History(self._store, layout.progress(number), layout.summary(number))
        self._sinks = self._given_sinks or Sinks(_origin(assignment))
        self._beat, self._started_at = 0, datetime.now(UTC)

    def move(
        self, assignment: LaunchContext, on_written: Callable[[Instant], object] | None
    ) -> None:
        """
        Report on another epoch from now on, and write its first heartbeat without the JVM.

        Only before the first query: no query was reported yet.
        """
        with self._lock:
            self._assign(assignment)
            self._on_written = on_written
            self._write_status()

    def begin(self) -> None:
        """Give the first sign of life, without the JVM, and start beating."""
        with self._lock:
            self._write_status()
        self._thread.start()

    def close(self) -> None:
        """Beat a last time, with the remaining reports of the queries."""
        self._closing.set()
        self.beat(final=True)
        # After the beat: a sink that hangs must not keep the last status from being written.
        if self._sinks.close():
            with self._lock:
                self._write_status()

    def beat(self, *, final: bool = False) -> None:
        """Ask Spark, then write. It can block as long as the JVM does."""
        with self._lock:
            answered = False
            with self._faults.contained("Asking the JVM"):
                self._jvm.ping()
                answered = True
            if not answered:
                return
            self._look()
            self._write_status()
            with self._faults.contained("Writing the progress history"):
                self._history.write(now=time.monotonic(), final=final)
            with self._faults.contained("Writing the claims on checkpoints"):
                self._claims.write()

    def _run(self) -> None:
        rest = BEAT_SECONDS
        while not self._closing.wait(rest):
            begun = time.monotonic()
            self.beat()
            rest = rest_after(time.monotonic() - begun)

    def _look(self) -> None:
        self._executors.resizes = self.resizes
        self._executors.look()
        fresh = self._with_executors(self._queries.poll())
        self._queries.time_work(self._jobs.look())
        self._history.add([batch.progress for batch in fresh], now=time.monotonic())
        if not self._assignment.epoch.serves:
            # A hot standby would take the port of the live driver.
            self._sinks.offer(fresh)
        if self._first_progress_at is None and (fresh or self._queries.commits_epochs):
            self._first_progress_at = datetime.now(UTC)
        failed = self._queries.first_failed
        if failed is not None and failed.error is not None and not self._ending.begun.is_set():
            logger.error("Query %r failed: %s", failed.name, failed.error.message)
            self._on_failure()

    def _with_executors(self, fresh: list[NewBatch]) -> list[NewBatch]:
        count = None
        with self._faults.contained("Counting the executors"):
            count = self._jobs.executors() if fresh else None
        if count is None:
            return fresh
        found = []
        for position, one in enumerate(fresh):
            # Failed tasks count for the application, so only one batch reports them, not every
            # query's batch.
            figures = {**one.progress.figures, **self._executors.figures(with_failed=not position)}
            shown = replace(one.progress, executors=count, figures=figures)
            found.append(replace(one, progress=shown))
        return found

    def _write_status(self) -> None:
        begun = instant()
        with self._faults.contained("Writing the status"):
            self._store.replace(self._path, _as_bytes(self._status()))
            if self._on_written is not None:
                self._on_written(begun)

    def _status(self) -> Status:
        self._beat += 1
        epoch = self._assignment.epoch
        queries = tuple(query.as_status() for query in self._queries.all())
        return Status(
            stream=epoch.stream,
            epoch=epoch.number,
            token=epoch.token,
            beat=self._beat,
            state=self._state(bool(queries)),
            host=self._host,
            pid=os.getpid(),
            started_at=self._started_at,
            at=datetime.now(UTC),
            spark_version=self._spark_version,
            application_id=self._jvm.application_id,
            ui_url=self._jvm.ui_url,
            first_progress_at=self._first_progress_at,
            queries=queries,
            sinks=self._sinks.statuses(),
            standby=self._barrier is not None and self._barrier.is_closed,
            executors=self._executors.latest,
            pause=None if self.pauses is None else self.pauses.status(),
            size=None if self.resizes is None else self.resizes.status(),
        )

    def _state(self, started: bool) -> DriverState:
        if self._ending.begun.is_set():
            return DriverState.STOPPING
        return DriverState.RUNNING if started else DriverState.STARTING


def _as_bytes(status: Status) -> bytes:
    """Return the record; a heartbeat counts more than the figures that make one too large."""
    try:
        return status.to_bytes()
    except RecordError:
        queries = tuple(replace(query, progress=None) for query in status.queries)
        return replace(status, queries=queries).to_bytes()


def _origin(assignment: LaunchContext) -> Origin:
    epoch = assignment.epoch
    return Origin(stream=epoch.stream, epoch=epoch.number, deployment=epoch.deployment)


def _pyspark_version() -> str | None:
    try:
        import pyspark
    except ImportError:
        return None
    return str(pyspark.__version__)
