"""
The queries of the script: their state, their figures, and why they ended.

Spark's public interface tells that a trigger is active but not which one: a query that looks for
data all the time would seem to be in one endless batch. The start of the trigger's run tells looks
apart. It is kept in a place that has moved: 3.5 has it in the query itself, 4.x in a context.

Progress is polled. A Python ``StreamingQueryListener`` would be called by the JVM for every batch
and turn each event into Python objects with dozens of calls back into the JVM, while the batch
after it already runs; polling takes a dozen calls of a tenth of a millisecond every two seconds,
and about a millisecond for each new batch. ``benchmarks/listener.py`` compares the two, and
``benchmarks/beat.py`` times a beat. Polling also proves at every
beat that the JVM answers, and an error on the way loses nothing: the JVM keeps the latest hundred.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from airflow_streaming.driver.checkpoint_claims import batch_in_work
from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.driver.monitoring.activity import (
    BatchActivity,
    Beat,
    Sight,
    TriggerRun,
    Work,
)
from airflow_streaming.driver.monitoring.file_backlog import (
    FilesWaiting,
    count_waiting,
    is_file_source,
    with_files,
)
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.progress import MAX_OFFSET, MAX_SOURCES, BatchProgress
from airflow_streaming.model.spark.failure_signs import Diagnosis
from airflow_streaming.model.spark.failures import (
    conditions_in,
    core_of,
    diagnose,
    first_line,
    mask_secrets,
    presentable,
    python_error_in,
)
from airflow_streaming.model.spark.logs import NO_OFFSET, parse_offset_log
from airflow_streaming.model.status import CheckpointOrigin, QueryStatus
from airflow_streaming.model.storage import Store

_ARROW: Final = " -> "


def offsets_of(checkpoint: Store, batch: int) -> tuple[str, ...]:
    """
    Return ``start -> end`` for every source of a planned batch, each cut to 500 characters.

    Empty when the batch was not planned, or its plan is not what Spark writes.

    :raises StreamingError: the checkpoint cannot be read.
    """
    ends = _planned(checkpoint, batch)
    starts = _planned(checkpoint, batch - 1) if ends and batch > 0 else {}
    return tuple(
        _span(name, starts.get(name, NO_OFFSET), end)
        for name, end in list(ends.items())[:MAX_SOURCES]
    )


def _planned(checkpoint: Store, batch: int) -> dict[str, str]:
    data = checkpoint.read(f"offsets/{batch}")
    try:
        return {} if data is None else dict(parse_offset_log(data).offsets)
    except RecordError:
        return {}


def _span(name: str, start: str, end: str) -> str:
    label = "" if name.isdecimal() else f"{name}: "
    room = (MAX_OFFSET - len(label) - len(_ARROW)) // 2
    return f"{label}{_cut(start, room)}{_ARROW}{_cut(end, room)}"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 3]}..."


_START_3_5: Final = (
    "org$apache$spark$sql$execution$streaming$ProgressReporter$$currentTriggerStartTimestamp"
)


class TriggerView:
    """
    The trigger of one query.

    :param jsq: The Java ``StreamingQuery``.
    """

    def __init__(self, jsq: Any) -> None:
        self._jsq = jsq
        self._stream: Any = None
        self._has_context = True

    def interval(self) -> float | None:
        """Return the seconds between its runs; ``None`` for a trigger without an interval."""
        trigger = self._execution().trigger()
        # A continuous trigger has an interval too: that of its checkpoints, while it never rests.
        if str(trigger.getClass().getSimpleName()) != "ProcessingTimeTrigger":
            return None
        seconds = int(trigger.intervalMs()) / 1000
        return seconds if seconds > 0 else None

    def run(self) -> TriggerRun:
        """Return the run in work, or the last one; without figures where Spark does not tell."""
        stream = self._execution()
        if self._has_context:
            with contextlib.suppress(Exception):
                context = stream.getLatestExecutionContext()
                return TriggerRun(
                    batch=_told(context.batchId()),
                    started=_told(context.currentTriggerStartTimestamp()),
                )
            self._has_context = False
        with contextlib.suppress(Exception):
            started = _told(getattr(stream, _START_3_5)())
            return TriggerRun(batch=_told(stream.currentBatchId()), started=started)
        return TriggerRun()

    def _execution(self) -> Any:
        if self._stream is None:
            # What pyspark holds is a wrapper in every release so far; a bare query is as good.
            wrapped = self._jsq
            with contextlib.suppress(Exception):
                wrapped = self._jsq.streamingQuery()
            self._stream = wrapped
        return self._stream


def _told(number: Any) -> int | None:
    return int(number) if int(number) >= 0 else None


_MAX_CAUSE = 20_000
"""Characters of one cause in the text of an error."""
_MAX_FRAMES = 30
"""Frames of the innermost cause; a JSON parser alone takes fifteen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryError:
    """
    Why a query ended.

    :param message: One line, masked.
    :param batch_id: The batch it was in, where it can be told.
    :param offsets: Where that batch begins and ends, as ``start -> end``, one text a source.
    :param diagnosis: What the whole message says; ``None`` where only ``message`` is known.
    :param core: The innermost cause in one line, which tells this failure from others.
    """

    message: str
    exception_class: str
    condition: str | None = None
    conditions: tuple[str, ...] = ()
    batch_id: int | None = None
    offsets: tuple[str, ...] = ()
    diagnosis: Diagnosis | None = None
    core: str = ""

    @classmethod
    def from_text(
        cls, text: str, *, exception_class: str, condition: str | None = None
    ) -> QueryError:
        """Take the error out of Spark's message, a Python error in it before the JVM's."""
        python = python_error_in(text)
        message = first_line(text)
        if python is not None:
            exception_class, said = python
            message = f"{exception_class}: {said}" if said else exception_class
        return cls(
            message=presentable(message),
            exception_class=exception_class,
            condition=condition,
            conditions=conditions_in(text),
            diagnosis=diagnose(text=text, exception_class=exception_class),
            core=presentable(core_of(text)),
        )


class Query(Protocol):
    """What the driver asks of a Spark query."""

    def is_active(self) -> bool:
        """Tell whether it runs."""

    def status(self) -> Mapping[str, Any]:
        """Return ``message``, ``isDataAvailable`` and ``isTriggerActive``."""

    def last_batch(self) -> int | None:
        """Return the id of the latest batch with a progress, ``None`` before the first."""

    def progress(self, latest: int | None) -> list[Mapping[str, Any]]:
        """Return the latest so many progress reports, oldest first; all kept ones for ``None``."""

    def error(self) -> QueryError | None:
        """Return why it failed; ``None`` when it runs, was stopped or completed."""

    def stop(self) -> None:
        """Stop it and wait until it has."""

    def trigger_interval(self) -> float | None:
        """Return the seconds between runs of its processing trigger, where it has an interval."""

    def trigger_run(self) -> TriggerRun:
        """Return the trigger's run in work, or its last one."""

    def files_waiting(self) -> Mapping[str, float]:
        """Count the files that wait for its file sources, by the source's description."""


class SparkQuery:
    """
    A query reached through py4j.

    :param jsq: The Java ``StreamingQuery``.
    """

    def __init__(self, jsq: Any) -> None:
        self._jsq = jsq
        self._trigger = TriggerView(jsq)

    def is_active(self) -> bool:
        return bool(self._jsq.isActive())

    def status(self) -> Mapping[str, Any]:
        told: Mapping[str, Any] = json.loads(self._jsq.status().json())
        return told

    def last_batch(self) -> int | None:
        last = self._jsq.lastProgress()
        return None if last is None else int(last.batchId())

    def progress(self, latest: int | None) -> list[Mapping[str, Any]]:
        kept = self._jsq.recentProgress()
        size = len(kept)
        first = 0 if latest is None else max(0, size - latest)
        return [json.loads(kept[i].json()) for i in range(first, size)]

    def error(self) -> QueryError | None:
        found = self._jsq.exception()
        if not found.isDefined():
            return None
        java = found.get()
        causes = causes_of(java)
        innermost = causes[-1] if causes else java
        return QueryError.from_text(
            text_of(java, causes),
            exception_class=str(innermost.getClass().getSimpleName()),
            condition=_condition_of(java),
        )

    def stop(self) -> None:
        self._jsq.stop()

    def trigger_interval(self) -> float | None:
        return self._trigger.interval()

    def trigger_run(self) -> TriggerRun:
        return self._trigger.run()

    def files_waiting(self) -> Mapping[str, float]:
        return count_waiting(self._jsq)


def causes_of(java: Any) -> list[Any]:
    """Return the causes of a Java exception, the innermost last."""
    causes: list[Any] = []
    cause = java.getCause()
    # The chain is short; the bound guards against one that bites its own tail.
    while cause is not None and len(causes) < 20:
        causes.append(cause)
        cause = cause.getCause()
    return causes


def text_of(java: Any, causes: list[Any]) -> str:
    """
    Return an exception's message with its causes, of which Spark tells the first alone.

    The innermost comes with its frames: "Input length = 1" is a torn file of the checkpoint or a
    bad line of the input, and only the reader's name tells which.
    """
    said = [str(java.getMessage())]
    said += [f"Caused by: {cause.toString()}"[:_MAX_CAUSE] for cause in causes]
    frames = causes[-1].getStackTrace() if causes else ()
    said += [f"\tat {frames[i].toString()}" for i in range(min(len(frames), _MAX_FRAMES))]
    return "\n".join(said)


def _condition_of(java: Any) -> str | None:
    # getErrorClass became getCondition in 4.0; only one of them is certain to be there.
    for method in ("getCondition", "getErrorClass"):
        with contextlib.suppress(Exception):
            return str(getattr(java, method)())
    return None


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
        self._faults = ErrorBoundary()
        self.committed_before = 0
        """Batches that older runs under this name committed in this epoch."""
        self._first: int | None = None
        self._last: int | None = None
        self._told: Mapping[str, Any] = {}
        self._progress: BatchProgress | None = None
        self._durations: deque[int] = deque(maxlen=_DURATIONS)
        self._interval: float | None = None
        self._asked_interval = False
        self._clock = BatchActivity()
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
        fresh: list[Fresh] = []
        # Asked first: a query that ends between two questions has told its last progress by then.
        active = self.active and self.query.is_active()
        with self._faults.contained(f"Reading the progress of query {self.name!r}"):
            fresh = self._fresh_progress()
        if not self.active:
            # One that is stopped counts as inactive before its last batch is finished and reported.
            return fresh
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
