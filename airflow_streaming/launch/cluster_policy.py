"""
Which clusters a process may ask for drivers.

An epoch records the cluster of its driver. Every writer of the home can write that record, so a
process that asks the cluster of any record sends requests, and its credentials, to any address.

A worker runs the code of those who can write the home; it asks the recorded cluster. The API server
and the command line ask only clusters that their own configuration names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.spark.launchers import LOCAL

CLUSTERS_VARIABLE: Final = "AIRFLOW__STREAMING__CLUSTERS"
ClusterPolicy = Callable[[Epoch], str]
"""Returns why the cluster of an epoch is not asked; empty where it may be."""


def ask_recorded(epoch: Epoch) -> str:
    """Ask the cluster that the record names: for processes that run the stream's code anyway."""
    return ""


def ask_listed(clusters: Collection[str]) -> ClusterPolicy:
    """
    Ask the listed clusters only.

    :param clusters: Names as epochs record them, e.g. ``yarn://http://rm1:8088``.
    """

    def policy(epoch: Epoch) -> str:
        if epoch.launcher == LOCAL or epoch.host.name in clusters:
            return ""  # a process of this host has no address
        return (
            f"epoch {epoch.number} of {epoch.stream!r} names cluster {epoch.host.name!r:.200}, which is "
            f"not in [streaming] clusters ({', '.join(sorted(clusters)) or 'empty'}), so it was not "
            "asked. If it is yours, add it there"
        )

    return policy


ask_none: Final = ask_listed(())
