"""
The same script kept alive twice: by this provider, and by the Spark provider with retries.

Both restart without a wait of their own, so that the benchmark measures the machinery and not a
policy: no first delay here, no retry delay there.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_streaming.model.records.policy import Budget, RestartPolicy
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import StreamSpec

APPLICATION = str(Path(__file__).parent / "jobs" / "endless.py")
SUBMITTED = "{{ var.value.submitted }}"

with DAG("bench_provider", schedule="@continuous", max_active_runs=1, catchup=False):
    SparkStreamOperator(
        task_id="numbers",
        stream=StreamSpec(
            name="numbers",
            application=APPLICATION,
            application_args=["--output", "{output}"],
            home="{{ var.value.streams_home }}",
            runtime="spark-4.3",
            restart=RestartPolicy(
                first_delay=timedelta(0),
                budgets=(Budget(restarts=1000, window=timedelta(hours=1)),),
            ),
        ),
        conn_id="spark_default",
    )

with DAG("bench_submit", schedule=None, catchup=False):
    SparkSubmitOperator(
        task_id="numbers",
        application=APPLICATION,
        application_args=[
            "--output",
            f"{SUBMITTED}/output",
            "--checkpoint",
            f"{SUBMITTED}/checkpoint",
        ],
        conn_id="spark_default",
        retries=20,
        retry_delay=timedelta(0),
    )
