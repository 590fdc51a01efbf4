"""
A report that is made only while its stream is healthy.

The sensor waits until the stream has been healthy for a while. It fails at once when the stream is
stopped or its circuit is open, because then a wait does not help.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from airflow_streaming.sensors.stream import StreamHealthSensor

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"

# [START howto_gate]
with DAG("retail_report", schedule=None, catchup=False, tags=["streaming"], doc_md=__doc__):
    healthy = StreamHealthSensor(
        task_id="healthy",
        home=HOME,
        stream="retail_revenue",
        healthy_for=timedelta(seconds=30),
        deferrable=True,
        poke_interval=10,
        timeout=timedelta(minutes=15).total_seconds(),
    )

    @task
    def report(home: str) -> int:
        """Count the stream's output; a real report would read it."""
        delivered = Path(home, "retail_revenue", "output").rglob("*.parquet")
        files = sum(1 for _ in delivered)
        print(f"The stream has delivered {files} files.")  # noqa: T201 - goes to the task log
        return files

    healthy >> report(HOME)
# [END howto_gate]
