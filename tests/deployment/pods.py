"""An executor that runs each task in a pod that is played; see ``tests.deployment.pod``."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from airflow.executors.base_executor import BaseExecutor
from airflow.executors.local_executor import LocalExecutor


class PodExecutor(LocalExecutor):
    """LocalExecutor whose tasks lose every process that they have started when they end or defer."""

    def _spawn_worker(self) -> None:
        # The worker is forked from this process, so it finds the other way to run a task there.
        BaseExecutor.run_workload = staticmethod(run_in_pod)  # type: ignore[method-assign]
        super()._spawn_worker()


def run_in_pod(workload: Any, **_: Any) -> None:
    """
    Run a task as KubernetesExecutor's pods do.

    :raises RuntimeError: the pod ended with an error.
    """
    task = [*(sys.executable, "-m", "airflow.sdk.execution_time.execute_workload")]
    given = [*task, "--json-string", workload.model_dump_json()]
    done = subprocess.run([sys.executable, "-m", "tests.deployment.pod", *given], check=False)
    if done.returncode != 0:
        raise RuntimeError(f"The pod of {workload.display_name} ended with code {done.returncode}.")
