"""
Sources: the checkpoints that one backup is made of.

A stream has a checkpoint for every query, each in a folder of its own that has the query's name.
Somebody else's stream may have a single one. Both are given by one URI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.checkpoint.reader import query_folders

SINK_LOG: Final = "_spark_metadata"
"""
The file sink's log, in the output folder; in a backup it lies in a folder of that name beside the
query's own files: ``counts/_spark_metadata/17``. No checkpoint has a folder of that name.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """
    One checkpoint to be copied.

    :param folder: Its folder in the backup, which is the query's name; empty when the backup is of
        one checkpoint.
    :param folders: The checkpoint, for reading.
    :param sink_log: The ``_spark_metadata`` folder of the query's output, when it is wanted too.
    """

    folder: str
    folders: Folders
    sink_log: Folders | None = None

    def member(self, path: str) -> str:
        """Return where a file of the checkpoint lies in the backup."""
        return f"{self.folder}/{path}" if self.folder else path


def sources_of(folders: Folders) -> list[Source]:
    """
    Return the one checkpoint at a URI, or those directly under it, by name.

    :raises CheckpointError: there is none.
    :raises HomeUnavailable: the store cannot be reached.
    """
    return [
        Source(folder=name, folders=folders.below(name)) for name in sorted(query_folders(folders))
    ]
