"""The retail stream with a policy that forgives any number of kills; for ``tests.system.chaos``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import StreamSpec

APPLICATION = Path(__file__).parents[3] / "dags" / "jobs" / "retail_revenue.py"

with DAG(
    "retail_chaos",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    catchup=False,
):
    SparkStreamOperator(
        task_id="revenue",
        stream=StreamSpec(
            name="retail_chaos",
            application=str(APPLICATION),
            application_args=[
                *("--input", "{{ var.value.retail_input }}", "--output", "{output}"),
                *("--trigger-seconds", "0.5"),
            ],
            home="{{ var.value.streams_home }}",
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": 2},
            restart=RestartPolicy(
                first_delay=timedelta(seconds=1),
                max_delay=timedelta(seconds=5),
                budgets=(Budget(restarts=1000, window=timedelta(hours=1)),),
            ),
        ),
        conn_id="spark_default",
    )
