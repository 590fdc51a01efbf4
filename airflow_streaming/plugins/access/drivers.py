"""
Drivers as pages look at them: a cluster is asked only where the task's own connection leads.

The record of an epoch says which launcher started its driver, and at which cluster. The driver's script
can write that record too, so on its word the API server would send requests to any address. The Spark
connection of the task, which only Airflow's operators can write, must name the same cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow.sdk import BaseHook

from airflow_streaming.hooks.clusters import target_of
from airflow_streaming.launch.clusters.rest import answers_within
from airflow_streaming.launch.port import DriverLog, Heartbeat
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.observation import Process
from airflow_streaming.model.records.epoch import KUBERNETES, STANDALONE, Epoch, Launch
from airflow_streaming.plugins.access.kept import Kept

PATIENCE: Final = 2.0
"""Seconds for all questions of a page to a cluster: less than a page may take, so that a cluster that
is away does not make its home look so."""


@dataclass(frozen=True, slots=True)
class PageDrivers:
    """
    Looks at the drivers of one stream for its pages.

    :param kept: What the task keeps, by its rendered fields.
    """

    kept: Kept

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        """Look at the driver's processes, as a launcher does; it never raises."""
        refusal = why_not_asked(epoch, self.kept.conn_id)
        if refusal:
            return Process.unseen(refusal)
        with answers_within(PATIENCE):
            return open_launcher().probe(epoch, launch, heartbeat)

    def logs(self, epoch: Epoch, launch: Launch, file: Path, most: int) -> DriverLog:
        """Return the end of the driver's output, as a launcher does; it never raises."""
        refusal = why_not_asked(epoch, self.kept.conn_id)
        if refusal:
            return DriverLog(place=launch.log, trouble=refusal)
        with answers_within(PATIENCE):
            return open_launcher().logs(epoch, launch, file, most)


def why_not_asked(epoch: Epoch, conn_id: str) -> str:
    """Return why a cluster is not asked for an epoch's driver; empty when it may be."""
    if epoch.launcher not in (STANDALONE, KUBERNETES):
        return ""  # a process of a host; launchers of other packages look after themselves
    try:
        named = target_of(conn_id, BaseHook.get_connection(conn_id), epoch.launcher).cluster
    except Exception as err:  # noqa: BLE001 - a backend of secrets raises what it likes
        return f"Spark connection {conn_id!r} names no cluster to ask here: {err}"
    if named == epoch.host.name:
        return ""
    return (
        f"the record of epoch {epoch.number} says cluster {epoch.host.name!r:.200}, and Spark "
        f"connection {conn_id!r} of its task {named!r:.200}; pages ask the latter only"
    )
