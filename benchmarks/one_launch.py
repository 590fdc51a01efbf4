"""
One measured launch or submission, in an interpreter of its own, as a worker runs a task in a process of its own.

What a worker does before ``execute()`` (importing Airflow, parsing the dag) is done before the
clock starts; what is imported only when it is needed counts.
"""

from __future__ import annotations

import json
import logging
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Self

from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import StreamSpec
from demo.stage import REPOSITORY

BEGIN_SECONDS = 60.0
PATIENCE = 300.0
HOOK_IMAGE = "registry.example.org/spark:4.3.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """
    What a launch took.

    :param cpu: Seconds, user and system, of this interpreter and of the children that it waited for.
    """

    seconds: float
    cpu: float

    @classmethod
    def parse(cls, output: str) -> Self:
        """Read the last line of what this program printed."""
        return cls(**json.loads(output.splitlines()[-1]))


class Clock:
    """Runs from its creation."""

    def __init__(self) -> None:
        self.began, self._used = time.perf_counter(), cpu_seconds()

    def stop(self) -> Cost:
        return Cost(seconds=time.perf_counter() - self.began, cpu=cpu_seconds() - self._used)


def cpu_seconds() -> float:
    """Return what this process and the children that it waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def execute(folder: Path, stream: str = "launched") -> Cost:
    """Return what it cost from ``execute()`` to the deferral."""
    spec = StreamSpec(
        name=stream,
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
    clock = Clock()
    try:
        operator.execute({"ti": ti, "params": {}, "dag_run": run})  # type: ignore[typeddict-item]
    except TaskDeferred:
        return clock.stop()
    raise RuntimeError("The task ended instead of deferring.")


def submit(folder: Path) -> Cost:
    """Return what it cost from ``SparkSubmitHook.submit`` to the script's first line."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    begun = folder / "begun"
    begun.unlink(missing_ok=True)
    hook = SparkSubmitHook(conn_id="spark_default", application_args=[str(begun)])
    clock = Clock()
    # It returns when the application has ended; until then the task holds its slot.
    threading.Thread(target=hook.submit, args=(str(folder / "script.py"),), daemon=True).start()
    while not begun.exists():
        if time.perf_counter() - clock.began > BEGIN_SECONDS:
            raise RuntimeError(f"The script did not begin within {BEGIN_SECONDS:.0f} s.")
        time.sleep(0.005)
    cost = clock.stop()
    hook.on_kill()
    return cost


def submit_pod(folder: Path) -> Cost:
    """Return what ``SparkSubmitHook.submit`` costs that leaves the driver's pod to Kubernetes."""
    from airflow.providers.apache.spark.hooks import spark_submit

    clock = Clock()
    # It polls the pod afterwards by the Kubernetes provider, which this hook only looks for here.
    spark_submit.__dict__.setdefault("kube_client", spark_submit)
    hook = spark_submit.SparkSubmitHook(
        conn_id="spark_default",
        conf={"spark.kubernetes.container.image": HOOK_IMAGE},
        track_driver_via_k8s_api=True,
    )
    hook.submit(f"local://{folder / 'script.py'}")
    return clock.stop()


def measured(way: str, *arguments: str, environment: Mapping[str, str]) -> Cost:
    """
    Run this program and return what it measured.

    :param way: A key of ``WAYS``.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.one_launch", way, *arguments],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    if done.returncode != 0:
        sys.exit(f"A launch failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return Cost.parse(done.stdout)


WAYS = {"execute": execute, "submit": submit, "submit_pod": submit_pod}

if __name__ == "__main__":
    logging.disable(logging.INFO)
    what, where, *stream = sys.argv[1:]
    print(json.dumps(asdict(WAYS[what](Path(where), *stream))), flush=True)
