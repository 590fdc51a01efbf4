"""
Change: a stream's checkpoint is exchanged for another one, by a restore or by undoing it.

``changes/000002.json`` is created before anything is done and says all that is needed to go on
after a kill. What makes the change is the record of the new deployment, which names the new
checkpoint; ``000002.end.json`` only closes the matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from airflow_streaming.core.wire import Record


class ChangeSort(StrEnum):
    """What sort of change."""

    RESTORE = "restore"
    UNDO = "undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Record):
    """
    One exchange of a stream's checkpoint.

    :param replaced: Number of the deployment whose checkpoint is given up.
    :param deployment: Number of the deployment that will name the new one.
    :param checkpoint: URI under which every query will have a folder.
    :param backup: Id of the backup that is restored; empty for an undo.
    :param queries: From each query's folder in the backup to its folder under ``checkpoint``.
    """

    KIND: ClassVar[str] = "change"

    number: int
    stream: str
    what: ChangeSort
    replaced: int
    deployment: int
    checkpoint: str
    by: str
    reason: str
    at: datetime
    backup: str = ""
    queries: Mapping[str, str] = field(default_factory=dict)


class ChangeOutcome(StrEnum):
    """How a change ended."""

    DONE = "done"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEnd(Record):
    """
    The end of a change.

    :param number: The change's.
    :param backup_before: Id of the backup that was taken of what was given up; empty when none was.
    """

    KIND: ClassVar[str] = "change_end"

    number: int
    outcome: ChangeOutcome
    by: str
    reason: str
    at: datetime
    backup_before: str = ""
