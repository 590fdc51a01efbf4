"""
A stream that ends: every hour it reads the present input, succeeds, and updates an asset.

``availableNow`` is a batch job with the memory of a stream. A run that failed is retried on the
same checkpoint and reads the uncommitted data of the last run.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Asset, task

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
INPUT = "{{ var.value.get('streams_input', '/opt/airflow/input') }}"
HOURS = Asset("clicks_per_hour")

with DAG(
    "triggers",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["streaming", "example"],
    doc_md=__doc__,
):
    SparkStreamOperator(
        task_id="clicks_per_hour",
        stream=StreamSpec(
            name="triggers",
            application="jobs/clicks_per_hour.py",
            application_args=[
                "--input",
                f"{INPUT}/clicks",
                "--output",
                "{output}",
                "--trigger",
                "available_now",
            ],
            home=HOME,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": 2},
        ),
        conn_id="spark_default",
        outlets=[HOURS],
    )

with DAG(
    "triggers_report",
    schedule=[HOURS],
    catchup=False,
    tags=["streaming", "example"],
    doc_md="Starts when the stream `triggers` has finished hours.",
):

    @task
    def report() -> None:
        """Stand for whatever reads the finished hours."""

    report()
