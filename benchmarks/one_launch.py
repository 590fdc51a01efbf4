"""
One measured launch, in an interpreter of its own, as a worker runs a task in a process of its own.

What a worker does before ``execute()`` (importing Airflow, parsing the dag) is done before the
clock starts; what is imported only when it is needed counts.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.model.records.policy import Budget, RestartPolicy
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import StreamSpec

BEGIN_SECONDS = 60.0


def execute(folder: Path) -> float:
    """Return the seconds from ``execute()`` to the deferral."""
    spec = StreamSpec(
        name="launched",
        application=str(folder / "script.py"),
        application_args=[str(folder / "begun")],
        home=str(folder / "home"),
        runtime="spark-4.3",
        restart=RestartPolicy(
            first_delay=timedelta(0), budgets=(Budget(restarts=9999, window=timedelta(hours=1)),)
        ),
    )
    with DAG("launched", schedule=None):
        operator = SparkStreamOperator(task_id="launched", stream=spec, rollover_after=None)
    ti = SimpleNamespace(
        dag_id="launched",
        task_id="launched",
        run_id="run-1",
        try_number=1,
        map_index=-1,
        xcom_push=lambda key, value: None,
    )
    run = SimpleNamespace(start_date=datetime.now(UTC))
    began = time.perf_counter()
    try:
        operator.execute({"ti": ti, "params": {}, "dag_run": run})  # type: ignore[typeddict-item]
    except TaskDeferred:
        return time.perf_counter() - began
    raise RuntimeError("The task ended instead of deferring.")


def submit(folder: Path) -> float:
    """Return the seconds from ``SparkSubmitHook.submit`` to the script's first line."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    begun = folder / "begun"
    begun.unlink(missing_ok=True)
    hook = SparkSubmitHook(conn_id="spark_default", application_args=[str(begun)])
    began = time.perf_counter()
    # It returns when the application has ended; until then the task holds its slot.
    threading.Thread(target=hook.submit, args=(str(folder / "script.py"),), daemon=True).start()
    while not begun.exists():
        if time.perf_counter() - began > BEGIN_SECONDS:
            raise RuntimeError(f"The script did not begin within {BEGIN_SECONDS:.0f} s.")
        time.sleep(0.005)
    took = time.perf_counter() - began
    hook.on_kill()
    return took


if __name__ == "__main__":
    logging.disable(logging.INFO)
    print({"execute": execute, "submit": submit}[sys.argv[1]](Path(sys.argv[2])), flush=True)
