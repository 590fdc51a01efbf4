"""
The record of a checkpoint or an output that is being removed for good.

It is created before the first file goes, so that no change of the stream returns to a folder that is
half gone: a change is begun before it looks for such a record, and a removal is recorded before it
looks for an open change. At least one of the two sees the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from airflow_streaming.model.wire import Record


class RemovalKind(StrEnum):
    """What sort of thing grows old in a home."""

    CHECKPOINT = "checkpoint"
    OUTPUT = "output"
    EPOCH = "epoch"
    HISTORY = "history"
    """Chunks of the progress history of an epoch that stays."""
    EVENTS = "events"
    SIZES = "sizes"
    """Changes of the number of executors."""
    DRIVER_LOG = "driver_log"
    """On the host where the removal runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal(Record):
    """
    A folder that nothing needs any more.

    :param what: ``checkpoint`` or ``output``.
    :param name: Of the folder below ``checkpoints`` or ``output`` of the stream.
    """

    KIND: ClassVar[str] = "removal"

    number: int
    stream: str
    what: RemovalKind
    name: str
    reason: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalEnd(Record):
    """Nothing of the folder is left; ``files`` and ``size`` are what the last run removed of it."""

    KIND: ClassVar[str] = "removal_end"

    number: int
    files: int
    size: int
    by: str
    at: datetime
