"""A DAG whose deadline says: complete until a time, by another time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import Positive, checked
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.names import check_is_stream
from airflow_streaming.orchestration.stream_dags import START
from airflow_streaming.sensors.stream import StreamWatermarkSensor

__all__ = ["complete_by"]


@checked
def complete_by(
    stream: str,
    home: str,
    *,
    at: str,
    within: Positive,
    callback: Any,
    timezone: str = "UTC",
    query: str | None = None,
    home_conn_id: str | None = None,
    dag_id: str | None = None,
    start_date: datetime = START,
) -> DAG:
    """
    Return a DAG that waits at each time until the stream is complete up to it, with a deadline.

    ``at="0 6 * * *", within=timedelta(minutes=20)`` says: complete until 06:00 by 06:20. A missed deadline stands
    on Airflow's page of deadlines, and Airflow calls the callback. The run continues until the stream is complete.

    :param stream: The stream's name.
    :param home: The home's URI.
    :param at: Cron expression of the times.
    :param within: Time after each of them by which the data must be complete.
    :param callback: Airflow's ``AsyncCallback`` or ``SyncCallback`` for a missed deadline.
    :param timezone: Time zone of the cron expression.
    :param query: The query that counts; default: the one furthest behind.
    :param home_conn_id: Connection with credentials for the home.
    :param dag_id: Id of the DAG; default: ``<stream>_complete_by``.
    :param start_date: Of the DAG.
    :raises SpecError: the name, the schedule or the callback cannot be.
    """
    check_is_stream(stream)
    try:
        deadline = DeadlineAlert(
            reference=DeadlineReference.DAGRUN_LOGICAL_DATE,
            interval=within,
            callback=callback,
            name=f"{stream} complete within {duration_text(within)}",
        )
        schedule = CronTriggerTimetable(at, timezone=timezone)
    except ValueError as err:
        raise SpecError(f"The deadline of stream {stream!r} cannot be: {err}") from err
    with DAG(
        dag_id or f"{stream}_complete_by",
        schedule=schedule,
        start_date=start_date,
        catchup=False,
        deadline=deadline,
        tags=["streaming", stream],
        description=f"Stream {stream} must be complete {duration_text(within)} after each time.",
    ) as dag:
        StreamWatermarkSensor(
            task_id="complete",
            stream=stream,
            home=home,
            home_conn_id=home_conn_id,
            query=query,
            past="{{ logical_date }}",
            deferrable=True,
            tolerate_stop=timedelta(days=1),
        )
    return dag
