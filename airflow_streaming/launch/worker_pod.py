"""Drivers of launcher ``local`` cannot outlive the pod of a worker: they are refused before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_streaming.exceptions import SpecError

WORKER_POD: Final = "AIRFLOW_IS_K8S_EXECUTOR_POD"
"""Variable that KubernetesExecutor sets in the pod of each task."""
LOCAL: Final = "local"


def check_outlives_task(launcher: str, environment: Mapping[str, str]) -> None:
    """
    Do nothing where a driver can outlive the task that launches it.

    :param launcher: Kind of the launcher.
    :param environment: Variables of the worker.
    :raises SpecError: the driver would be a process of a pod that ends with the task.
    """
    if launcher != LOCAL or not environment.get(WORKER_POD):
        return
    raise SpecError(
        f"Launcher {LOCAL!r} cannot run a driver here: this worker is a pod of KubernetesExecutor "
        f"({WORKER_POD} is set), and a pod ends with every process in it when its task defers. "
        "Nothing was started. Give the Spark connection the master of a cluster (k8s://, spark://, "
        "yarn), or let the task run on another executor: executor='LocalExecutor'."
    )
