"""
What a stream has committed, asked of its checkpoints.

A driver tells of its batches some seconds later, and one that is killed never does. Where there is
no way back once a batch is committed, only the checkpoint is believed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from airflow_streaming.checkpoint.folders import Folders, open_folders
from airflow_streaming.checkpoint.ours import Asked, Open, stream_sources
from airflow_streaming.core.checkpoint.backup import Origin
from airflow_streaming.core.upgrade.stage import Stage, StageReached
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.home.home import StreamHome

FACT: Final = "committed"
"""The fact of stage ``stopped`` that says what the old deployment had committed."""


class Committed:
    """
    Looks into the checkpoints of one stream.

    :param open_folders: Opens them.
    """

    def __init__(self, home: StreamHome, open_folders: Open = open_folders) -> None:
        self._home, self._open = home, open_folders

    def told(self) -> str:
        """
        Return the newest committed batch by each checkpoint's URI, as a fact keeps it.

        :raises HomeUnavailable: a store cannot be reached.
        """
        return json.dumps(self._batches(), sort_keys=True)

    def since(self, reached: Mapping[Stage, StageReached]) -> bool:
        """
        Tell whether anything was committed after the old driver was stopped.

        A checkpoint that is gone counts as one that has changed.

        :raises HomeUnavailable: a store cannot be reached; this says nothing of the checkpoint.
        """
        stopped = reached.get(Stage.STOPPED)
        if stopped is None:
            return False
        before: dict[str, int] = json.loads(stopped.facts.get(FACT, "{}"))
        now = self._batches()
        seen_before = {uri: _newest(self._open(uri)) for uri in before}
        return seen_before != before or not now.keys() <= before.keys()

    def _batches(self) -> dict[str, int]:
        deployment = self._home.newest_deployment()
        if deployment is None:
            return {}
        asked = Asked(origin=Origin.BEFORE_UPGRADE, by="", open_folders=self._open)
        try:
            sources = stream_sources(self._home, deployment, asked)
        except CheckpointError:
            return {}
        found = {source.folders.uri: _newest(source.folders) for source in sources}
        return {uri: batch for uri, batch in found.items() if batch is not None}


def _newest(folders: Folders) -> int | None:
    names = (entry.name for entry in folders.entries("commits", list) or ())
    return max((int(name) for name in names if name.isdecimal()), default=None)
