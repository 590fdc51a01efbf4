"""The newest state of every account in a relational table, exactly once."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import HealthRules, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
INPUT = "{{ var.value.get('streams_input', '/opt/airflow/input') }}"
# PostgreSQL, by a URL without a password (a .pgpass file of the driver's user has it); else SQLite.
DATABASE = "{{ var.value.get('upsert_database', '/tmp/upsert.db') }}"

with DAG(
    "upsert",
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
        task_id="balances",
        stream=StreamSpec(
            name="upsert",
            application="jobs/account_balances.py",
            application_args=["--input", f"{INPUT}/accounts", "--database", DATABASE],
            home=HOME,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": 2},
            health=HealthRules.recommended(backlog_files=50),
        ),
        conn_id="spark_default",
    )
