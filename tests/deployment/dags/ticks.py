"""More streams of a deployment: small ones, whose input Spark makes itself."""

from __future__ import annotations

import json
import os
from pathlib import Path

from airflow.sdk import DAG

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.orchestration.stream_dags import START
from airflow_streaming.spec import StreamSpec

TICKS = Path(os.environ["DEPLOYMENT_JOB"]).with_name("ticks.py")

for number in range(1, int(os.environ["DEPLOYMENT_MORE"]) + 1):
    name = f"ticks_{number}"
    with DAG(
        name, schedule="@continuous", start_date=START, catchup=False, max_active_runs=1
    ) as dag:
        SparkStreamOperator(
            task_id="keep_alive",
            stream=StreamSpec(
                name=name,
                application=str(TICKS),
                application_args=["--output", "{output}"],
                home="{{ var.value.streams_home }}",
                runtime=os.environ["DEPLOYMENT_RUNTIME"],
                conf={"spark.sql.shuffle.partitions": 1, "spark.driver.memory": "512m"},
                jars=json.loads(os.environ["DEPLOYMENT_JARS"]),
            ),
            home_conn_id=os.environ["DEPLOYMENT_HOME_CONNECTION"] or None,
        )
    globals()[name] = dag
