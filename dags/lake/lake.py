"""Accounts in Apache Iceberg: appended, merged, and read again as a stream."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import HealthRules, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
INPUT = "{{ var.value.get('streams_input', '/opt/airflow/input') }}"
ICEBERG = "/opt/spark/jars/iceberg-spark-runtime-3.5_2.12-1.10.2.jar"

with DAG(
    "lake",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    max_consecutive_failed_dag_runs=3,
    catchup=False,
    tags=["streaming", "example"],
    doc_md=__doc__,
):
    SparkStreamOperator(
        task_id="accounts",
        stream=StreamSpec(
            name="lake",
            application="jobs/lake_accounts.py",
            # The tables are in the output, so that each lane of a cutover has its own.
            application_args=["--input", f"{INPUT}/accounts", "--warehouse", "{output}"],
            # Or packages=["org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.2"].
            jars=[f"{{{{ var.value.get('iceberg_jar', '{ICEBERG}') }}}}"],
            home=HOME,
            runtime="spark-3.5",
            conf={
                "spark.sql.extensions": (
                    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
                ),
                "spark.sql.shuffle.partitions": 2,
            },
            health=HealthRules.recommended(backlog_files=50),
        ),
        conn_id="spark_default",
    )
