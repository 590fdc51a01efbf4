"""Tasks that defer again and again, each trigger firing a fixed time after the deferral."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from benchmarks.deferring import Deferring

with DAG("bench_deferrals", schedule=None, catchup=False, max_active_tasks=1000):
    for number in range(int(os.environ.get("BENCH_TASKS", "1"))):
        Deferring(
            task_id=f"task_{number:03}",
            retries=1_000_000,
            retry_delay=timedelta(0),
        )
