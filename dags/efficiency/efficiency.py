"""
Three queries in one application, each in its own fair pool, with the production profile.

One driver and one set of executors serve three queries: cheaper than three applications, and no
query starves another. ``airflow-streaming doctor`` compares the profile with the running
configuration.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import HealthRules, StreamSpec, production

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
INPUT = "{{ var.value.get('streams_input', '/opt/airflow/input') }}"

with DAG(
    "efficiency",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    max_consecutive_failed_dag_runs=3,
    catchup=False,
    tags=["streaming", "example"],
    doc_md=__doc__,
):
    SparkStreamOperator(
        task_id="sensors",
        stream=StreamSpec(
            name="efficiency",
            application="../iot/jobs/iot_sensors.py",
            application_args=["--input", f"{INPUT}/sensors", "--output", "{output}"],
            home=HOME,
            runtime="spark-4.3",
            profile=production(cores=2, fair_scheduling=True),
            health=HealthRules.recommended(backlog_files=50),
        ),
        conn_id="spark_default",
    )
