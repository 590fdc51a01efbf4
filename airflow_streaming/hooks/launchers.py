"""Launchers through which tasks and triggers see drivers that run already."""

from __future__ import annotations

from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.cluster_policy import ClusterPolicy, ask_listed, ask_recorded
from airflow_streaming.launch.port import Launcher
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.settings import read_settings


def task_policy(*clusters: str) -> ClusterPolicy:
    """
    Return which clusters a task or trigger asks: any recorded one, unless the settings list some.

    :param clusters: Asked in any case, as the task's own connection names them.
    """
    listed = read_settings().clusters
    return ask_listed((*listed, *filter(None, clusters))) if listed else ask_recorded


def task_launcher(home: StreamHome) -> Launcher:
    """Return a launcher that sees the drivers of a stream, and starts none on a cluster."""
    folder = read_settings().driver_logs(home.store.uri)
    return open_launcher(folder=folder, policy=task_policy())
