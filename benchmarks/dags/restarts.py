"""
The same script kept alive by this provider, with and without a hot standby, and by the Spark provider.

All restart without a wait of their own, so that the benchmark measures the machinery and not a
policy: no first delay here, no retry delay there.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import StreamSpec

APPLICATION = str(Path(__file__).parent / "jobs" / "endless.py")
SUBMITTED = "{{ var.value.submitted }}"


def kept(name: str, *, standby: bool) -> SparkStreamOperator:
    """Return the task that keeps a stream, in the dag of the block."""
    return SparkStreamOperator(
        task_id=name,
        stream=StreamSpec(
            name=name,
            application=APPLICATION,
            application_args=["--output", "{output}"],
            home="{{ var.value.streams_home }}",
            runtime="spark-4.3",
            restart=RestartPolicy(
                first_delay=timedelta(0),
                budgets=(Budget(restarts=1000, window=timedelta(hours=1)),),
            ),
            standby=standby,
        ),
        conn_id="spark_default",
    )


with DAG("bench_provider", schedule="@continuous", max_active_runs=1, catchup=False):
    kept("numbers", standby=False)

with DAG("bench_standby", schedule="@continuous", max_active_runs=1, catchup=False):
    kept("warmed", standby=True)

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
