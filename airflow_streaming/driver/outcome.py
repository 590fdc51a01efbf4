"""
How the run ended → the exit record and the process's exit code.

Pure: what the script did, what the queries did and who asked for what are values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from airflow_streaming.core.epoch import Exit, Outcome
from airflow_streaming.core.failures.diagnosis import Diagnosis, FailureKind, diagnose, signature
from airflow_streaming.core.failures.text import MAX_TEXT, presentable
from airflow_streaming.driver.ending import Stop
from airflow_streaming.driver.query import QueryError

COMPLETED_CODE: Final = 0
FAILED_CODE: Final = 1
REFUSED_CODE: Final = 2

_REFUSED: Final = "DriverRefusal"

_CHECKPOINT_REFUSALS: Final = (
    "is empty or gone",
    "belongs to query id",
    "is not what Spark writes there",
)
"""What a refusal says of a checkpoint that has vanished, was exchanged or is garbled."""


class ScriptState(StrEnum):
    """How far the user's script has come."""

    RUNNING = "running"
    RETURNED = "returned"
    """It came to its end, or left with exit code 0."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnd:
    """
    What the script did.

    :param error: Why it failed.
    :param retryable: False for a script that cannot even be compiled.
    """

    state: ScriptState
    error: QueryError | None = None
    retryable: bool = True


RUNNING: Final = ScriptEnd(state=ScriptState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """
    Everything that is known at the end of a run.

    :param started: At least one query was started.
    :param still_active: Queries that had to be cut off.
    :param cut_off: The process ends itself at once, and no batch boundary was waited for.
    """

    epoch: int
    at: datetime
    script: ScriptEnd
    started: bool
    stop: Stop | None = None
    refusal: str | None = None
    failed_query: str | None = None
    query_error: QueryError | None = None
    still_active: tuple[str, ...] = ()
    jvm_gone: bool = False
    cut_off: bool = False


def conclude(end: End) -> Exit:
    """Say why the driver ended."""
    return replace(_concluded(end), cut_off=end.cut_off)


def _concluded(end: End) -> Exit:
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


def fenced(epoch: int, at: datetime) -> Exit:
    """Say that a newer epoch owns the stream."""
    return Exit(
        epoch=epoch,
        outcome=Outcome.FENCED,
        reason=f"An epoch newer than {epoch} owns the stream; this driver ended itself.",
        ended_at=at,
        cut_off=True,
    )


def refused(epoch: int, at: datetime, sentence: str) -> Exit:
    """Say that the driver did not even begin, or would not go on."""
    damaged = any(phrase in sentence for phrase in _CHECKPOINT_REFUSALS)
    kind = FailureKind.CHECKPOINT_DAMAGED if damaged else FailureKind.CONFIGURATION
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
    """Return the exit code of the process."""
    if exit.outcome is not Outcome.FAILED:
        return COMPLETED_CODE
    return REFUSED_CODE if exit.exception_class == _REFUSED else FAILED_CODE


def _stopped(end: End, stop: Stop) -> Exit:
    reason = f"Stopped by {stop.by}: {stop.reason}"
    if end.still_active:
        reason += (
            f" Cut off after {stop.grace:.0f} s without a batch boundary in "
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


def _query_failed(end: End, error: QueryError) -> Exit:
    batch = "" if error.batch_id is None else f" in batch {error.batch_id}"
    told = f"Query {end.failed_query!r} failed{batch}: {error.message}"
    return _diagnosed(end, error, told, _diagnosis(error), query=end.failed_query)


def _script_failed(end: End) -> Exit:
    error = end.script.error
    if error is None:
        return _failed(end, "The script failed.", kind=FailureKind.USER_CODE)
    found = _diagnosis(error)
    if found.kind is FailureKind.UNKNOWN:
        # Whatever a script raises that is nobody else's failure is its own.
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
    end: End, error: QueryError, told: str, found: Diagnosis, *, query: str | None
) -> Exit:
    if found.kind.needs_a_person:
        told = f"{told[: MAX_TEXT - len(found.remedy) - 2]} {found.remedy}"
    return Exit(
        epoch=end.epoch,
        outcome=Outcome.FAILED,
        reason=presentable(told),
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
    )


def _failed(end: End, reason: str, *, kind: FailureKind, retryable: bool = True) -> Exit:
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
