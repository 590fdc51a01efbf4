"""
Other dags around a stream: they wait for it, follow it, get its alerts, and examine it daily.

All of them work on ``retail_revenue``, the stream of the main example, and on an external stream,
named by its checkpoint.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.providers.http.notifications import HttpNotifier
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG, Param, task

from airflow_streaming.assets import stream_asset
from airflow_streaming.operators.doctor import StreamDoctorOperator
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.sensors.stream import (
    StreamBacklogSensor,
    StreamCaughtUpSensor,
    StreamHealthSensor,
    StreamProgressSensor,
    StreamWatermarkSensor,
)
from airflow_streaming.spec import HealthRules, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
INPUT = "{{ var.value.get('streams_input', '/opt/airflow/input') }}"
EXTERNAL = "{{ var.value.get('external_checkpoint', '/data/checkpoints/clicks') }}"
START = datetime(2026, 1, 1, tzinfo=UTC)
OURS = {"home": HOME, "stream": "retail_revenue", "deferrable": True, "timeout": 900}

# [START howto_every_sensor]
with DAG(
    "every_sensor",
    schedule=None,
    catchup=False,
    params={
        "day": Param(
            "2026-01-06",
            type="string",
            format="date",
            title="Day",
            description="Day of event time up to which everything must be complete.",
        )
    },
    tags=["streaming", "example"],
    doc_md=__doc__,
):
    _ = [
        StreamHealthSensor(task_id="healthy", healthy_for=timedelta(minutes=1), **OURS),
        StreamProgressSensor(task_id="batch_3", batch=3, **OURS),
        StreamWatermarkSensor(
            task_id="day_complete", past="{{ params.day }}T00:00:00+00:00", **OURS
        ),
        StreamBacklogSensor(task_id="little_left", below=5, unit="files", **OURS),
        StreamCaughtUpSensor(task_id="caught_up", with_stream="example_revenue", **OURS),
        # A stream that this provider did not launch: only its checkpoint is read.
        StreamProgressSensor(
            task_id="external", checkpoint=EXTERNAL, batch=1, deferrable=True, timeout=900
        ),
    ]
# [END howto_every_sensor]

# [START howto_asset_consumer]
# The asset's watcher begins as soon as this file is read, so its home is not a template: it comes
# from the environment, and without one the watcher has no work.
if home := os.environ.get("AIRFLOW_STREAMING_HOME"):
    days = stream_asset("retail_revenue", home, every=timedelta(days=1))

    with DAG(
        "day_consumer",
        schedule=[days],
        catchup=False,
        tags=["streaming", "example"],
        doc_md="Starts when a day of event time of `retail_revenue` is complete.",
    ):

        @task(inlets=[days])
        def consume(*, inlet_events: dict[object, list[object]]) -> None:
            """Read a day that is complete; a real task would read the output of the stream."""
            print(*inlet_events[days])  # noqa: T201 - goes to the task log

        consume()
# [END howto_asset_consumer]

# [START howto_daily_doctor]
with DAG(
    "daily_doctor",
    schedule="@daily",
    start_date=START,
    catchup=False,
    tags=["streaming", "example"],
    doc_md="Examines `retail_revenue` once a day and fails on a grave risk.",
):
    StreamDoctorOperator(task_id="doctor", home=HOME, stream="retail_revenue", fail_on="high")
# [END howto_daily_doctor]

# [START howto_notifiers]
TEXT = "{{ alert_subject }}"
MAIL = SmtpNotifier(
    to="oncall@example.org", subject=TEXT, html_content="<pre>{{ alert_body | e }}</pre>"
)
CHAT = HttpNotifier(http_conn_id="chat", json={"text": TEXT})

with DAG(
    "notified",
    schedule="@continuous",
    start_date=START,
    max_active_runs=1,
    max_consecutive_failed_dag_runs=3,
    catchup=False,
    tags=["streaming", "example"],
    doc_md="Keeps a stream running that sends alerts by mail and chat.",
):
    SparkStreamOperator(
        task_id="sensors",
        stream=StreamSpec(
            name="notified",
            application="../iot/jobs/iot_sensors.py",
            application_args=["--input", f"{INPUT}/sensors", "--output", "{output}"],
            home=HOME,
            runtime="spark-4.3",
            health=HealthRules.recommended(backlog_files=50),
        ),
        conn_id="spark_default",
        on_unhealthy=CHAT,
        on_restart=CHAT,
        on_gave_up=[MAIL, CHAT],
        on_recovered=CHAT,
    )
# [END howto_notifiers]
