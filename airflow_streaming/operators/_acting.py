"""Who acts for a task, and how its errors end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.restart import RestartDecision
from airflow_streaming.core.steering import Step
from airflow_streaming.exceptions import StreamFailed

if TYPE_CHECKING:
    from airflow.sdk import Context


def who(context: Context) -> str:
    """Return who acts, for the records: the task, its run and its try."""
    ti = context["ti"]
    return f"{ti.dag_id}.{ti.task_id} run {ti.run_id} try {ti.try_number}"


def blocked_message(stream: str, step: Step) -> str:
    """Return what a person has to do about a driver that cannot be proved dead."""
    return (
        f"Stream {stream!r} is not restarted: {step.reason} Two drivers on one checkpoint would "
        "write batches twice. When you know that the old driver is gone, say so with "
        f"'airflow-streaming declare-dead {stream} --epoch N --by NAME --reason TEXT'."
    )


def gave_up(stream: str, decision: RestartDecision) -> AirflowFailException:
    """Return the error of a task whose stream is down and not started again."""
    cause = StreamFailed(
        f"Stream {stream!r} is down and stays down: {decision.reason} The circuit is open. "
        f"{decision.remedy or 'Mend the cause.'} Then start it again with StartStreamOperator or "
        f"'airflow-streaming close-circuit {stream}'."
    )
    error = AirflowFailException(str(cause))
    error.__cause__ = cause
    return error
