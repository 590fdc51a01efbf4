"""
A shop's revenue, kept up to date by a stream that is always on.

The task launches the driver, defers, and resumes only when there is something to do. The dag
follows itself: when a run ends, the next one begins and adopts the driver that runs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import HealthRules, RestartPolicy, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
INPUT = "{{ var.value.get('retail_input', '/opt/airflow/retail') }}"

# [START howto_keep_alive]
with DAG(
    "retail_revenue",
    schedule="@continuous",
    # Without a start date Airflow gives the second run the logical date of the first, and skips it.
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    # A stream that cannot even be launched fails every run at once; three in a row pause the dag.
    max_consecutive_failed_dag_runs=3,
    catchup=False,
    params={
        "restart": Param(
            False,
            type="boolean",
            title="Apply an edited stream",
            description="Stop the stream, deploy the dag's present spec, start it.",
        )
    },
    tags=["streaming"],
    doc_md=__doc__,
):
    SparkStreamOperator(
        task_id="revenue",
        stream=StreamSpec(
            name="retail_revenue",
            application="jobs/retail_revenue.py",
            application_args=["--input", INPUT, "--output", "{output}"],
            home=HOME,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": 2},
            restart=RestartPolicy(max_delay=timedelta(minutes=2)),
            # A firing rule sends an alert; see docs/health.md for the rules and how to change one.
            health=HealthRules.recommended(backlog_files=50),
        ),
        conn_id="spark_default",
    )
# [END howto_keep_alive]
