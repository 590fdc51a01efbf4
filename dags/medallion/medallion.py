"""A declarative pipeline of three flows, from raw events to revenue: bronze, silver and gold."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import HealthRules, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
LAKE = f"{HOME}_lake/medallion"

with DAG(
    "medallion",
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
        task_id="medallion",
        stream=StreamSpec(
            name="medallion",
            pipeline="pipeline.yml",
            # An update begins ten seconds after the begin of the last one.
            application_args=["--every", "10"],
            home=HOME,
            runtime="spark-4.3",
            conf={
                "spark.sql.shuffle.partitions": 2,
                # The tables must outlive the driver, so their catalog is on disk; a metastore does as well.
                "spark.sql.catalogImplementation": "hive",
                "spark.sql.warehouse.dir": f"{LAKE}/tables",
                "spark.hadoop.javax.jdo.option.ConnectionURL": (
                    f"jdbc:derby:;databaseName={LAKE}/catalog;create=true"
                ),
            },
            health=HealthRules.recommended(backlog_files=50),
        ),
        conn_id="spark_default",
    )
