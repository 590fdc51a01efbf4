"""
The checkpoints in the storage of a declarative pipeline (``spark-pipelines``).

Spark keeps them as ``_checkpoints/<catalog>/<database>/<table>/<flow>/<version>``. A full refresh of a table begins the
next version and leaves the earlier ones, so only the newest version of a flow is a running query's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.model.pipeline.flows import FLOWS, newest_versions
from airflow_streaming.storage.folders import Folders

_DEEPEST: Final = 7
"""Folders below ``_checkpoints``: names of a table with up to four parts, the flow, the version, and one more."""
MOST_FOLDERS: Final = 2_000
_MARKS: Final = frozenset({"metadata", "offsets", "commits"})


def flows_in(folders: Folders) -> dict[str, str]:
    """Return the newest checkpoint of each flow as a path below the storage; empty for another folder."""
    return {
        flow.removeprefix(f"{FLOWS}/"): path
        for flow, path in newest_versions(_checkpoints(folders)).items()
    }


def _checkpoints(folders: Folders) -> Iterator[str]:
    waiting, looked = [FLOWS], 0
    while waiting and looked < MOST_FOLDERS:
        path = waiting.pop()
        looked += 1
        entries = folders.entries(path, list) or []
        if any(entry.name in _MARKS for entry in entries):
            yield path
        elif path.count("/") < _DEEPEST:
            waiting += [
                f"{path}/{one.name}" for one in entries if one.is_folder and not one.strange
            ]
