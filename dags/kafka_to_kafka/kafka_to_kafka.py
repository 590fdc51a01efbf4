"""Several topics of Kafka into one, with their headers, on a limit of offsets a batch."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import HealthRules, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
JOBS = Path(__file__).parent / "jobs"

with DAG(
    "kafka_to_kafka",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    max_consecutive_failed_dag_runs=3,
    catchup=False,
    tags=["streaming", "example"],
    doc_md=__doc__,
):
    SparkStreamOperator(
        task_id="route",
        stream=StreamSpec(
            name="kafka_to_kafka",
            application="jobs/route_events.py",
            application_args=[
                *("--servers", "{{ var.value.get('kafka_servers', '127.0.0.1:9092') }}"),
                *("--topics", "{{ var.value.get('kafka_topics', 'clicks,payments') }}"),
                *("--into", "events"),
                # "kafka" where the official connector can be had; then packages= as in the README.
                *("--connector", "{{ var.value.get('kafka_connector', 'python_kafka') }}"),
            ],
            py_files=[str(JOBS / "python_kafka.py")],
            home=HOME,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": 2},
            health=HealthRules.recommended(backlog_records=1_000_000),
        ),
        conn_id="spark_default",
    )
