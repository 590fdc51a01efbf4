"""
A Spark query through py4j: its status, its trigger's runs, and why it ended.

Spark's public interface tells that a trigger is active, but not which run: a query that polls for
data would seem to be in one endless batch. The start of the trigger's run distinguishes the polls.
Its place has moved: 3.5 has it in the query itself, 4.x in a context.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from airflow_streaming.driver.jvm import connected_gateway
from airflow_streaming.driver.monitoring.activity import TriggerRun
from airflow_streaming.driver.pausing.batch_lock import BatchLock, SparkBatchLock
from airflow_streaming.driver.sources.file_backlog import Waiting, files_waiting
from airflow_streaming.driver.sources.source_outlook import SourceOutlooks
from airflow_streaming.model.plan.schema_change import schema_change
from airflow_streaming.model.products.retention import Outlook
from airflow_streaming.model.spark.failure_signs import Diagnosis, FailureKind
from airflow_streaming.model.spark.failures import (
    bad_value,
    conditions_in,
    core_of,
    diagnose,
    first_line,
    presentable,
    python_error_in,
)
from airflow_streaming.model.spark.lost_records import lost_records

_START_3_5: Final = (
    "org$apache$spark$sql$execution$streaming$ProgressReporter$$currentTriggerStartTimestamp"
)

_MAX_CAUSE = 20_000
"""Characters of one cause in the text of an error."""
_MAX_FRAMES = 30
"""Frames of the innermost cause; a JSON parser alone takes fifteen."""


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
        return self._seconds("ProcessingTimeTrigger") or None

    def epoch_interval(self) -> float | None:
        """Return the seconds between the commits of a continuous trigger, ``None`` for another trigger."""
        return self._seconds("ContinuousTrigger")

    def checkpoint_interval(self) -> float | None:
        """Return the length of each batch in real-time mode, ``None`` for another trigger."""
        return self._seconds("RealTimeTrigger")

    def _seconds(self, name: str) -> float | None:
        trigger = self._execution().trigger()
        if str(trigger.getClass().getSimpleName()) != name:
            return None
        length = trigger.batchDurationMs if name == "RealTimeTrigger" else trigger.intervalMs
        return max(0.0, int(length()) / 1000)

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
            # Every pyspark release so far holds a wrapper; a bare query works too.
            wrapped = self._jsq
            with contextlib.suppress(Exception):
                wrapped = self._jsq.streamingQuery()
            self._stream = wrapped
        return self._stream


def _told(number: Any) -> int | None:
    return int(number) if int(number) >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryError:
    """
    Why a query ended.

    :param message: Masked, in one line.
    :param batch_id: The batch it was in, if known.
    :param offsets: Begin and end of that batch, as ``start -> end``, one text a source.
    :param diagnosis: The diagnosis of the whole message; ``None`` where only ``message`` is known.
    :param core: The innermost cause in one line, which distinguishes this failure from others.
    :param rows: Rows of the batch with the value that the message names, see ``bad_rows``.
    :param value: The value that the message names, if any.
    """

    message: str
    exception_class: str
    condition: str | None = None
    conditions: tuple[str, ...] = ()
    batch_id: int | None = None
    offsets: tuple[str, ...] = ()
    diagnosis: Diagnosis | None = None
    core: str = ""
    rows: tuple[str, ...] = ()
    value: str | None = None

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
        diagnosis = diagnose(text=text, exception_class=exception_class)
        lost = lost_records(text) if diagnosis.kind is FailureKind.INCOMPATIBLE else None
        if lost is not None:
            message = lost.reason  # Spark's first line says only that something may be lost
        if diagnosis.kind in (FailureKind.SCHEMA_CHANGED, FailureKind.INCOMPATIBLE):
            changed = schema_change(text)
            message = (
                f"The schema of a source has changed: {changed}. {message}" if changed else message
            )
        return cls(
            message=presentable(message),
            exception_class=exception_class,
            condition=condition,
            conditions=conditions_in(text),
            diagnosis=diagnosis,
            core=presentable(core_of(text)),
            value=bad_value(text),
        )


class Query(Protocol):
    """The driver's interface to a Spark query."""

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

    def epoch_interval(self) -> float | None:
        """Return the seconds between commits of a continuous query; ``None`` for one in batches."""

    def checkpoint_interval(self) -> float | None:
        """Return the length of each batch in real-time mode; ``None`` for another query."""

    def trigger_run(self) -> TriggerRun:
        """Return the trigger's run in work, or its last one."""

    def files_waiting(self, ends: Mapping[str, Any]) -> Mapping[str, Waiting]:
        """
        Return the files that wait for its file sources, by the source's description.

        :param ends: End offsets of the latest batch, likewise.
        """

    def outlooks(self, ends: Mapping[str, Any]) -> Mapping[str, Outlook]:
        """
        Return when its sources remove unread data, by the source's description.

        :param ends: End offsets of the latest batch, likewise.
        """

    def kept_for(self) -> tuple[tuple[str, float], ...]:
        """Return the declared retention of its sources."""

    def batch_lock(self) -> BatchLock:
        """Return the lock between the plan and the commit of its batches."""

    def java_query(self) -> Any:
        """Return Spark's query."""


class SparkQuery:
    """
    A query reached through py4j.

    :param jsq: The Java ``StreamingQuery``.
    """

    def __init__(self, jsq: Any) -> None:
        self._jsq = jsq
        self._trigger = TriggerView(jsq)
        self._outlooks = SourceOutlooks(jsq)

    def is_active(self) -> bool:
        return bool(self._jsq.isActive())

    def status(self) -> Mapping[str, Any]:
        values: Mapping[str, Any] = json.loads(self._jsq.status().json())
        return values

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

    def epoch_interval(self) -> float | None:
        return self._trigger.epoch_interval()

    def checkpoint_interval(self) -> float | None:
        return self._trigger.checkpoint_interval()

    def trigger_run(self) -> TriggerRun:
        return self._trigger.run()

    def files_waiting(self, ends: Mapping[str, Any]) -> Mapping[str, Waiting]:
        return files_waiting(self._jsq, ends)

    def outlooks(self, ends: Mapping[str, Any]) -> Mapping[str, Outlook]:
        return self._outlooks.look(ends)

    def kept_for(self) -> tuple[tuple[str, float], ...]:
        return self._outlooks.kept_for()

    def batch_lock(self) -> BatchLock:
        return SparkBatchLock(self._jsq, connected_gateway())

    def java_query(self) -> Any:
        return self._jsq


def causes_of(java: Any) -> list[Any]:
    """Return the causes of a Java exception, the innermost last."""
    causes: list[Any] = []
    cause = java.getCause()
    # The chain is short; the bound guards against a cycle.
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


def has_run_a_batch(progress: Mapping[str, Any]) -> bool:
    """
    Tell a batch's progress from the progress of a poll without data.

    A poll reports the id of the next batch, so this id is reported twice.
    """
    return bool(progress.get("numInputRows")) or "addBatch" in (progress.get("durationMs") or {})
