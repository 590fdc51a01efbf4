"""Word count over a socket: a source that cannot be replayed, so a kill ends the stream."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"

with DAG(
    "socket_words",
    schedule="@continuous",
    # Without a start date Airflow gives the second run the logical date of the first, and skips it.
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    max_consecutive_failed_dag_runs=3,
    catchup=False,
    tags=["streaming", "example"],
    doc_md=__doc__,
):
    SparkStreamOperator(
        task_id="words",
        stream=StreamSpec(
            name="socket_words",
            application="jobs/socket_words.py",
            application_args=["--port", "9999"],
            home=HOME,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": 2},
        ),
        conn_id="spark_default",
    )
