"""
One running query as the driver sees it: the port to Spark, and what was learned through it.

Progress is polled. A Python ``StreamingQueryListener`` would be called by the JVM for every batch
and turn each event into Python objects with dozens of calls back into the JVM, while the batch after
it already runs; polling takes five calls of a tenth of a millisecond every two seconds, and about a
millisecond for each new batch. ``benchmarks/listener.py`` measures both. Polling also proves at every
beat that the JVM answers, and an error on the way loses nothing: the JVM keeps the latest hundred.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from airflow_streaming.core.failure import (
    conditions_in,
    first_line,
    mask_secrets,
    presentable,
    python_error_in,
)
from airflow_streaming.core.status import BatchProgress, CheckpointOrigin, QueryStatus
from airflow_streaming.driver.checkpoint import batch_in_work
from airflow_streaming.driver.faults import Faults
from airflow_streaming.files.store import Store

_MAX_MESSAGE = 200
"""Characters of Spark's status message; a failed query's would repeat its whole error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryError:
    """
    Why a query ended.

    :param message: One line, masked.
    :param batch_id: The batch it was in, where it can be told.
    """

    message: str
    exception_class: str
    condition: str | None = None
    conditions: tuple[str, ...] = ()
    batch_id: int | None = None

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


class SparkQuery:
    """
    A query reached through py4j.

    :param jsq: The Java ``StreamingQuery``.
    """

    def __init__(self, jsq: Any) -> None:
        self._jsq = jsq

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
        cause = java
        # The chain is short; the bound guards against one that bites its own tail.
        for _ in range(20):
            deeper = cause.getCause()
            if deeper is None:
                break
            cause = deeper
        return QueryError.from_text(
            str(java.getMessage()),
            exception_class=str(cause.getClass().getSimpleName()),
            condition=_condition_of(java),
        )

    def stop(self) -> None:
        self._jsq.stop()


def _condition_of(java: Any) -> str | None:
    # getErrorClass became getCondition in 4.0; only one of them is certain to be there.
    for method in ("getCondition", "getErrorClass"):
        with contextlib.suppress(Exception):
            return str(getattr(java, method)())
    return None


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
    ) -> None:
        self.query, self.name, self.id, self.run_id = query, name, id, run_id
        self.checkpoint, self.files, self.origin, self.gated = checkpoint, files, origin, gated
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

    @property
    def batches(self) -> int:
        """Return the batches committed in this epoch, as far as seen."""
        if self._first is None or self._last is None:
            return self.committed_before
        return self.committed_before + self._last - self._first + 1

    def poll(self) -> list[BatchProgress]:
        """Ask Spark how the query does and return the batches that are new since the last time."""
        if not self.active:
            return []
        fresh: list[BatchProgress] = []
        # Asked first: a query that ends between two questions has told its last progress by then.
        active = self.query.is_active()
        with self._faults.contained(f"Reading the progress of query {self.name!r}"):
            fresh = self._fresh_progress()
        with self._faults.contained(f"Reading the status of query {self.name!r}"):
            self._told = self.query.status()
        if not active:
            self.error = self._why()
            self.active = False
        return fresh

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
            progress=self._progress,
            error=None if self.error is None else self.error.message,
        )

    def _why(self) -> QueryError | None:
        if self.held:
            return None
        found = self.query.error()
        if found is None:
            return None
        if self._last is not None:
            return replace(found, batch_id=self._last + 1)
        batch = None
        with self._faults.contained(f"Reading the checkpoint of query {self.name!r}"):
            batch = batch_in_work(self.files)
        return replace(found, batch_id=batch)

    def _fresh_progress(self) -> list[BatchProgress]:
        last = self.query.last_batch()
        if last is None or (self._last is not None and last <= self._last):
            return []
        latest = None if self._last is None else last - self._last
        told = [report for report in self.query.progress(latest) if has_run_a_batch(report)]
        fresh = [BatchProgress.from_spark(self.name, report) for report in told]
        fresh = [p for p in fresh if self._last is None or p.batch_id > self._last]
        if fresh:
            self._first = fresh[0].batch_id if self._first is None else self._first
            self._last, self._progress = fresh[-1].batch_id, fresh[-1]
        return fresh
