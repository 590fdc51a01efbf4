"""Restore marker: says on an object store that a checkpoint is not whole yet, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from airflow_streaming.core.wire import Record

COPY: Final = "clone "
"""Begins the source of a clone or carry-over; nobody can go on from what a dead one left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMarker(Record):
    """
    A restore that is under way, or died.

    An object store renames nothing, so this is created first and deleted last. It lies in every
    checkpoint of the restore; the one in the first is the claim on the place.

    :param source: What is being written: a backup's id, or ``COPY`` and a name of its own.
    :param folders: The checkpoints of the restore under the target, sorted.
    :param token: Random; whoever takes over a restore of the same source puts its own here, and the
        one that finds another token than its own has lost the place.
    """

    KIND: ClassVar[str] = "restore_marker"

    source: str
    folders: tuple[str, ...]
    begun_at: datetime
    token: str = ""
