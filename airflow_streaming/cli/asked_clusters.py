"""The clusters that a command may ask for drivers."""

from __future__ import annotations

import os

from airflow_streaming.launch.cluster_policy import CLUSTERS_VARIABLE, ask_listed
from airflow_streaming.launch.port import Launcher
from airflow_streaming.launch.registry import open_launcher


def listed_launcher() -> Launcher:
    """
    Return a launcher that asks only the clusters that the environment lists.

    The home may be another user's, and its records name any address.
    """
    clusters = os.environ.get(CLUSTERS_VARIABLE, "").split()
    return open_launcher(policy=ask_listed(clusters))
