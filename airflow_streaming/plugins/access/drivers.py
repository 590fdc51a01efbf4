"""
Drivers as pages look at them: the one wall between the records of a home and the API server's network.

The record of an epoch says which launcher started its driver, and at which cluster. The driver's script
can write that record too. So the API server asks a cluster only where ``[streaming] clusters`` lists it,
or where the Spark connection names it that the dag file spells out for the task.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_streaming.hooks.clusters import target_of
from airflow_streaming.hooks.connections import connection_of
from airflow_streaming.launch.cluster_policy import ask_listed
from airflow_streaming.launch.clusters.rest import answers_within
from airflow_streaming.launch.port import DriverLog, Heartbeat, Launcher
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.observation import Process
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.plugins.access.kept import Kept
from airflow_streaming.settings import read_settings

PATIENCE: Final = 2.0
"""Seconds for all questions of a page to clusters: less than a page may take, so that a cluster that
is away does not make its home look so."""


def in_time() -> AbstractContextManager[None]:
    """Let all questions of a page to clusters together take ``PATIENCE``."""
    return answers_within(PATIENCE)


@dataclass(frozen=True, slots=True)
class PageDrivers:
    """
    Looks at the drivers of one stream for its pages.

    :param kept: The task's rendered fields.
    """

    kept: Kept
    launcher: Launcher = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "launcher", open_launcher(policy=self._policy))

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        """Look at the driver's processes, as a launcher does; it never raises."""
        with in_time():
            return self.launcher.probe(epoch, launch, heartbeat)

    def logs(self, epoch: Epoch, launch: Launch, file: Path, most: int) -> DriverLog:
        """Return the end of the driver's output, as a launcher does; it never raises."""
        with in_time():
            return self.launcher.logs(epoch, launch, file, most)

    def _policy(self, epoch: Epoch) -> str:
        refusal = ask_listed(read_settings().clusters)(epoch)
        if not refusal:
            return ""
        why = self._why_not_named(epoch)
        return f"{refusal}; {why}" if why else ""

    def _why_not_named(self, epoch: Epoch) -> str:
        conn_id = self.kept.conn_id
        if not conn_id:
            return "no Spark connection of its task is known here"
        if self.kept.conn_written != conn_id:
            return f"the dag file does not spell out Spark connection {conn_id!r} of its task"
        try:
            named = target_of(
                conn_id, connection_of(conn_id, self.kept.dag.team), epoch.launcher
            ).cluster
        except Exception as err:  # noqa: BLE001 - a secrets backend may raise any exception
            return f"Spark connection {conn_id!r} names no cluster to ask here: {err}"
        if named and named == epoch.host.name:
            return ""
        return f"Spark connection {conn_id!r} of its task names {named or 'none'!r:.200}"
