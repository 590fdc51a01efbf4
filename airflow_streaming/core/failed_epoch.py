"""Observation + Verdict → Failure: what the restart policy has to know of an epoch that failed."""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.core.epoch import Exit, LaunchCause, StopRequest
from airflow_streaming.core.failures.diagnosis import diagnose
from airflow_streaming.core.failures.kind import FailureKind
from airflow_streaming.core.observation import Observation
from airflow_streaming.core.restart import Failure
from airflow_streaming.core.rules.rule import Severity
from airflow_streaming.core.verdict import Verdict


def failure_of(seen: Observation, verdict: Verdict, stop: StopRequest | None = None) -> Failure:
    """
    Return the failure of an epoch that has ended.

    :param stop: The request that it was stopped by, if any: one that a health verdict asked for
        makes it a failure.
    """
    failure = Failure(
        epoch=seen.epoch.number,
        reason=verdict.reason,
        kind=FailureKind.KILLED,
        trial=seen.epoch.cause is LaunchCause.TRIAL,
    )
    if seen.exit is not None:
        failure = _told_by(seen.exit, failure)
    if stop is not None and stop.verdict is not None:
        failure = replace(
            failure,
            reason=stop.reason,
            kind=FailureKind.UNHEALTHY,
            retryable=stop.verdict is Severity.RESTART,
        )
    if seen.status is None:
        return failure
    return replace(failure, progressed_for=seen.status.progressed_for, batches=seen.status.batches)


def _told_by(exit: Exit, failure: Failure) -> Failure:
    kind = exit.failure_kind
    if kind is None:
        # Written by a driver that did not diagnose yet.
        kind = diagnose(
            text=exit.reason, exception_class=exit.exception_class, conditions=exit.conditions
        ).kind
    return replace(
        failure,
        kind=kind,
        signature=exit.signature,
        query=exit.query,
        batch_id=exit.batch_id,
        offsets=exit.offsets,
        retryable=exit.retryable,
    )
