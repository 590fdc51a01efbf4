"""Runs for the complete hours of the clicks, and one for each complete day."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import (
    DAG,
    DayWindow,
    PartitionedAssetTimetable,
    RollupMapper,
    StartOfDayMapper,
    StartOfHourMapper,
    task,
)

from airflow_streaming.assets import window_asset
from airflow_streaming.operators.windows import ClosedWindowsOperator

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
HOURS = window_asset("clickstream", HOME)
COMMON = {
    "catchup": False,
    "tags": ["streaming", "example"],
}

with DAG(
    "clickstream_windows",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    doc_md="Announces each complete hour of the clicks as a partition of an asset.",
    **COMMON,
):
    ClosedWindowsOperator(
        task_id="windows", stream="clickstream", home=HOME, asset=HOURS, retries=2
    )

with DAG(
    "clickstream_hourly",
    schedule=PartitionedAssetTimetable(assets=HOURS, default_partition_mapper=StartOfHourMapper()),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    doc_md="Runs once for each complete hour of the clicks.",
    **COMMON,
):

    @task
    def hourly(dag_run):
        """Use the clicks of one complete hour."""
        return f"The clicks of the hour from {dag_run.partition_key} are complete."

    hourly()

with DAG(
    "clickstream_daily",
    schedule=PartitionedAssetTimetable(
        assets=HOURS,
        default_partition_mapper=RollupMapper(
            upstream_mapper=StartOfDayMapper(), window=DayWindow()
        ),
    ),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    doc_md="Runs once for each day whose hours are all complete.",
    **COMMON,
):

    @task
    def daily(dag_run):
        """Use the clicks of one complete day."""
        return f"The clicks of {dag_run.partition_key} are complete."

    daily()
