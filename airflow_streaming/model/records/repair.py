"""
The repair of a file sink that has one batch more than its checkpoint, recorded before it is made.

``repairs/000001.json`` is created before the first file moves, ``000001.end.json`` when the last one
has moved. ``000001.undo.json`` is created before a user's undo moves them back, and ``000001.undo.end.json``
after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from airflow_streaming.model.names import numbered
from airflow_streaming.model.wire import Record

REPAIR = "repair"
"""Stands in the name of the folder of moved files where a restore has the id of its backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRepair(Record):
    """
    A batch that a launch moves out of a file sink before its driver starts.

    :param epoch: The epoch whose driver starts afterwards; ``deployment`` is the one it runs.
    :param checkpoint: URI of the query's checkpoint; ``output`` of the sink's folder.
    :param batch: The batch, which the checkpoint has planned and not committed.
    :param planned_at: When the checkpoint planned it.
    """

    KIND: ClassVar[str] = "sink_repair"

    number: int
    stream: str
    epoch: int
    deployment: int
    query: str
    checkpoint: str
    output: str
    batch: int
    by: str
    at: datetime
    planned_at: datetime | None = None

    @property
    def aside(self) -> str:
        """Return the URI of the folder that has the moved files."""
        return f"{self.output.rstrip('/')}/_rolled_back/{numbered(self.number)}-{REPAIR}"


class RepairOutcome(StrEnum):
    """How a repair, or its undo, ended."""

    DONE = "done"
    ABANDONED = "abandoned"
    """The checkpoint has committed the batch meanwhile, or a user has undone the repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRepairEnd(Record):
    """The end of a repair; ``files`` and ``size`` are the data files that it moved."""

    KIND: ClassVar[str] = "sink_repair_end"

    number: int
    outcome: RepairOutcome
    by: str
    at: datetime
    files: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRepairUndo(Record):
    """A user's wish to have the batch back in the sink; no launch moves it out again."""

    KIND: ClassVar[str] = "sink_repair_undo"

    number: int
    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRepairUndoEnd(Record):
    """
    The end of an undo.

    :param outcome: ``ABANDONED`` where the batch was written or committed anew before it could move back.
    """

    KIND: ClassVar[str] = "sink_repair_undo_end"

    number: int
    outcome: RepairOutcome
    by: str
    at: datetime
