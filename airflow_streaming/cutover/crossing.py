"""Crossing: the two deployments of one stream of which one takes over from the other."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_streaming.core.deployment import Deployment
from airflow_streaming.home.home import StreamHome


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """
    Two deployments of which one takes over from the other.

    :param ahead: The lane that hands over, and its deployment.
    :param behind: The lane that takes over; the driver of ``epoch`` waits at the barrier.
    :param waiting: Names of the queries that wait there now; the others come later.
    :param carries: The checkpoint is made from the other's, and nothing is absorbed.
    """

    ahead: StreamHome
    ahead_deployment: Deployment
    behind: StreamHome
    behind_deployment: Deployment
    epoch: int
    queries: tuple[str, ...]
    waiting: tuple[str, ...]
    carries: bool
