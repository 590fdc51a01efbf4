"""Restore marker: says on an object store that a checkpoint is not whole yet, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from airflow_streaming.core.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMarker(Record):
    """
    A restore that is under way, or died.

    An object store renames nothing, so this is created first and deleted last. It lies in every
    checkpoint of the restore; the one in the first is the claim on the place.

    :param source: What is being written: a backup's id, or the checkpoint that is cloned.
    :param folders: The checkpoints of the restore under the target, sorted.
    """

    KIND: ClassVar[str] = "restore_marker"

    source: str
    folders: tuple[str, ...]
    begun_at: datetime
