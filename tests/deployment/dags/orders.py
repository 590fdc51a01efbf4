"""The stream of a deployment with all of its dags, on a home in a folder or on S3, in a hurry."""

from __future__ import annotations

import json
import os
from datetime import timedelta

from airflow_streaming.options import (
    BackupOptions,
    Connections,
    CutoverOptions,
    GreenStart,
    RehearsalOptions,
    RehearseWhen,
    SwitchMethod,
    UpgradeOptions,
)
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import (
    Budget,
    CompareTerms,
    FormPolicy,
    ReadyTerms,
    RestartPolicy,
    SoakTerms,
    StreamSpec,
)

STREAM = "orders"
JOB = os.environ["DEPLOYMENT_JOB"]
SHORT = SoakTerms(
    batches=2, at_least=timedelta(seconds=10), at_most=timedelta(minutes=10), backlog_growth=10
)

globals().update(
    stream_dags(
        StreamSpec(
            name=STREAM,
            application=JOB,
            application_args=[
                *("--input", "{{ var.value.retail_input }}", "--output", "{output}"),
                *("--trigger-seconds", "5", "--files-per-batch", "10"),
            ],
            home="{{ var.value.streams_home }}",
            runtime=os.environ["DEPLOYMENT_RUNTIME"],
            conf={"spark.sql.shuffle.partitions": 2, "spark.driver.memory": "700m"},
            jars=json.loads(os.environ["DEPLOYMENT_JARS"]),
            form_policy=FormPolicy(applications=[os.path.dirname(JOB)]),  # noqa: PTH120
            restart=RestartPolicy(
                first_delay=timedelta(seconds=1),
                max_delay=timedelta(seconds=5),
                budgets=(Budget(restarts=1000, window=timedelta(hours=1)),),
            ),
        ),
        backup=BackupOptions(schedule=None),
        soak=SHORT,
        approval={"begin": "auto", "switch": "auto"},
        upgrade=UpgradeOptions(rehearsal=RehearsalOptions(when=RehearseWhen.NEVER)),
        cutover=CutoverOptions(
            way=SwitchMethod.PARALLEL,
            start=GreenStart.FRESH,
            ready=ReadyTerms(well_for=timedelta(seconds=5), batches=2, backlog_factor=10),
            compare=CompareTerms(
                stream=STREAM,
                format="parquet",
                time="day",
                bucket=timedelta(days=1),
                keys=("country",),
                sums=("revenue", "order_lines"),
                tolerance=1e-9,
            ),
            retain_blue=timedelta(days=1),
        ),
        connections=Connections(home_conn_id=os.environ["DEPLOYMENT_HOME_CONNECTION"] or None),
    )
)
