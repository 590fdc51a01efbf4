"""
How the run ended, as shutdown state, exit record and exit code.

A stop and a failure end the queries in the same way. Only the time limit and the exit record
differ.

Pure: the events of the script, the queries and the stop requests are values.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from airflow_streaming.driver.errors import logger
from airflow_streaming.driver.monitoring.spark_query import QueryError
from airflow_streaming.exceptions import AlreadyExists, CheckpointMismatch, StreamingError, closed
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import Epoch, Exit, Outcome
from airflow_streaming.model.spark.failure_signs import Diagnosis, FailureKind
from airflow_streaming.model.spark.failures import diagnose, presentable, signature
from airflow_streaming.model.storage import Store

FAILURE_GRACE: Final = 30.0
"""Seconds that the other queries get to end after one has failed; a restart replays them
exactly."""

_TRIES: Final = 3
_BETWEEN: Final = 1.0

COMPLETED_CODE: Final = 0
FAILED_CODE: Final = 1
REFUSED_CODE: Final = 2
_REFUSED: Final = "DriverRefusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """
    A wish that the stream stops.

    :param grace: Seconds it may take.
    """

    by: str
    reason: str
    grace: float


class ShutdownState:
    """Set once, by the first thread that ends the driver; read by every thread."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.stop: Stop | None = None
        self.refusal: StreamingError | None = None
        self.grace = FAILURE_GRACE
        self._lock = threading.Lock()

    def ask_stop(self, stop: Stop) -> bool:
        """Begin the shutdown on a stop request; False when it had begun already."""
        with self._lock:
            if self.begun.is_set():
                return False
            self.stop, self.grace = stop, stop.grace
            self.begun.set()
            return True

    def fail(self) -> bool:
        """Begin the end because the script or a query failed."""
        with self._lock:
            if self.begun.is_set():
                return False
            self.begun.set()
            return True

    def refuse(self, error: StreamingError) -> None:
        """Begin the end because the script broke a rule, even if it catches the error."""
        with self._lock:
            if self.refusal is None and self.stop is None:
                self.refusal = error
            self.begun.set()


class ExitRecordWriter:
    """
    Writes the exit record of one epoch.

    :param layout: Its stream's.
    """

    def __init__(self, store: Store, layout: Layout, epoch: int) -> None:
        self._store, self._layout, self._epoch = store, layout, epoch
        self._lock = threading.Lock()
        self.said: Exit | None = None

    def move(self, layout: Layout, epoch: int) -> None:
        """Write the record there from now on: the driver has become another epoch's."""
        with self._lock:
            self._layout, self._epoch = layout, epoch

    def say(self, exit: Exit) -> None:
        """Write the record unless another thread has written it already."""
        with self._lock:
            if self.said is not None:
                return
            self.said = exit
            told = f"{closed(exit.reason)} {exit.remedy}".rstrip()
            logger.info("Driver of epoch %d ends: %s. %s", exit.epoch, exit.outcome, told)
            self._write(exit)

    def _write(self, exit: Exit) -> None:
        path = self._layout.place(Exit, epoch=self._epoch)
        for left in reversed(range(_TRIES)):
            try:
                self._store.create(path, self._layout.bytes_of(exit))
            except AlreadyExists:
                return
            except StreamingError as err:
                if not left:
                    logger.warning("The exit record could not be written: %s", err)
                    return
                time.sleep(_BETWEEN)
            else:
                return


class ScriptState(StrEnum):
    """How far the user's script has come."""

    RUNNING = "running"
    RETURNED = "returned"
    """It came to its end, or left with exit code 0."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnd:
    """
    How the script ended.

    :param retryable: False for a script that cannot even be compiled.
    """

    state: ScriptState
    error: QueryError | None = None
    retryable: bool = True


RUNNING: Final = ScriptEnd(state=ScriptState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """
    Everything that is known at the end of a run.

    :param started: At least one query was started.
    :param still_active: Queries that were cut off.
    :param unbegun: See ``Exit``.
    :param cut_off: The process ends itself at once, and no batch boundary was waited for.
    """

    epoch: int
    at: datetime
    script: ScriptEnd
    started: bool
    stop: Stop | None = None
    refusal: StreamingError | None = None
    failed_query: str | None = None
    query_error: QueryError | None = None
    still_active: tuple[str, ...] = ()
    unbegun: Mapping[str, int] = field(default_factory=dict)
    jvm_gone: bool = False
    cut_off: bool = False


def conclude(end: RunEnd) -> Exit:
    return replace(_concluded(end), cut_off=end.cut_off, unbegun=end.unbegun)


def _concluded(end: RunEnd) -> Exit:
    if end.stop is not None:
        return _stopped(end, end.stop)
    if end.refusal is not None:
        return refused(end.epoch, end.at, end.refusal)
    if end.jvm_gone:
        return _failed(
            end,
            "The Spark JVM of this driver is gone; it was killed or ran out of memory.",
            kind=FailureKind.KILLED,
        )
    if end.query_error is not None:
        return _query_failed(end, end.query_error)
    if end.script.state is ScriptState.FAILED:
        return _script_failed(end)
    if not end.started:
        return _failed(
            end,
            "The script ended without starting a streaming query. Start one with "
            "df.writeStream.queryName(...).start(), or run the script as an ordinary batch job.",
            kind=FailureKind.USER_CODE,
            retryable=False,
        )
    return Exit(
        epoch=end.epoch,
        outcome=Outcome.COMPLETED,
        reason="The script and all its queries came to their end.",
        ended_at=end.at,
    )


def promoted(standby: Epoch, epoch: Epoch, at: datetime) -> Exit:
    """Say that a hot standby waits no more: it is an epoch's driver."""
    return Exit(
        epoch=standby.number,
        outcome=Outcome.COMPLETED,
        reason=f"Standby {standby.number} is the driver of epoch {epoch.number} now.",
        ended_at=at,
    )


def fenced(epoch: int, at: datetime) -> Exit:
    """Say that a newer epoch owns the stream."""
    return Exit(
        epoch=epoch,
        outcome=Outcome.FENCED,
        reason=f"An epoch newer than {epoch} owns the stream; this driver ended itself.",
        ended_at=at,
        cut_off=True,
    )


def lease_lost(epoch: int, at: datetime) -> Exit:
    """Say that the driver could not renew its lease."""
    return Exit(
        epoch=epoch,
        outcome=Outcome.FAILED,
        reason="No heartbeat could be written for as long as the lease; this driver ended itself.",
        ended_at=at,
        failure_kind=FailureKind.KILLED,
        cut_off=True,
    )


def refused(epoch: int, at: datetime, error: StreamingError) -> Exit:
    """Return the exit record of a driver that refused to start or to continue."""
    damaged = isinstance(error, CheckpointMismatch)
    kind = FailureKind.CHECKPOINT_DAMAGED if damaged else FailureKind.CONFIGURATION
    sentence = str(error)
    # A refusal says itself what to do.
    return Exit(
        epoch=epoch,
        outcome=Outcome.FAILED,
        reason=presentable(sentence),
        ended_at=at,
        retryable=False,
        exception_class=_REFUSED,
        failure_kind=kind,
        signature=signature(
            kind=kind, query=None, exception_class=_REFUSED, condition=None, text=sentence
        ),
    )


def code_of(exit: Exit) -> int:
    if exit.outcome is not Outcome.FAILED:
        return COMPLETED_CODE
    return REFUSED_CODE if exit.exception_class == _REFUSED else FAILED_CODE


def _stopped(end: RunEnd, stop: Stop) -> Exit:
    reason = f"Stopped by {stop.by}: {stop.reason}"
    if end.still_active:
        reason += (
            f" Cut off after {duration_text(stop.grace)} without a batch boundary in "
            f"{', '.join(map(repr, end.still_active))}; the unfinished batch runs again."
        )
    error = end.query_error
    if error is not None:
        reason += f" Query {end.failed_query!r} failed meanwhile: {error.message}"
    return Exit(
        epoch=end.epoch,
        outcome=Outcome.STOPPED,
        reason=presentable(reason),
        ended_at=end.at,
        query=end.failed_query,
        exception_class=None if error is None else error.exception_class,
        conditions=() if error is None else error.conditions,
    )


def _query_failed(end: RunEnd, error: QueryError) -> Exit:
    batch = "" if error.batch_id is None else f" in batch {error.batch_id}"
    message = f"Query {end.failed_query!r} failed{batch}: {error.message}"
    return _diagnosed(end, error, message, _diagnosis(error), query=end.failed_query)


def _script_failed(end: RunEnd) -> Exit:
    error = end.script.error
    if error is None:
        return _failed(end, "The script failed.", kind=FailureKind.USER_CODE)
    found = _diagnosis(error)
    if found.kind is FailureKind.UNKNOWN:
        # An exception of the script that matches no known sign is the script's own failure.
        found = replace(found, kind=FailureKind.USER_CODE)
    exit = _diagnosed(end, error, f"The script failed: {error.message}", found, query=None)
    return replace(exit, retryable=end.script.retryable)


def _diagnosis(error: QueryError) -> Diagnosis:
    if error.diagnosis is not None:
        return error.diagnosis
    return diagnose(
        text=error.message, exception_class=error.exception_class, conditions=error.conditions
    )


def _diagnosed(
    end: RunEnd, error: QueryError, text: str, found: Diagnosis, *, query: str | None
) -> Exit:
    return Exit(
        epoch=end.epoch,
        outcome=Outcome.FAILED,
        reason=presentable(text),
        ended_at=end.at,
        exception_class=error.exception_class,
        condition=error.condition,
        conditions=error.conditions,
        query=query,
        batch_id=error.batch_id,
        failure_kind=found.kind,
        signature=signature(
            kind=found.kind,
            query=query,
            exception_class=error.exception_class,
            condition=error.condition,
            text=error.core or error.message,
        ),
        offsets=error.offsets,
        rows=error.rows,
        remedy=found.remedy,
    )


def _failed(end: RunEnd, reason: str, *, kind: FailureKind, retryable: bool = True) -> Exit:
    return Exit(
        epoch=end.epoch,
        outcome=Outcome.FAILED,
        reason=presentable(reason),
        ended_at=end.at,
        retryable=retryable,
        failure_kind=kind,
        signature=signature(
            kind=kind, query=None, exception_class=None, condition=None, text=reason
        ),
    )
