"""
Change: a stream's checkpoint is exchanged for another one, or its deployment upgraded in place.

``changes/000002.json`` is created before anything is done and says all that is needed to go on
after a kill. What makes a restore is the record of the new deployment, which names the new
checkpoint; ``000002.end.json`` only closes the matter. An upgrade has stages of its own beside it.
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
    UPGRADE = "upgrade"
    """Another deployment on the same checkpoint, with a way back; see ``core.upgrade``."""
    CUTOVER = "cutover"
    """Another lane becomes live; recorded in both, and led by the first; see ``core.cutover``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Record):
    """
    One exchange of a stream's checkpoint, or one upgrade on the same checkpoint.

    :param replaced: Number of the deployment that is given up, or whose checkpoint is.
    :param deployment: Number of the deployment that takes its place.
    :param checkpoint: URI under which every query will have a folder.
    :param backup: Id of the backup that is restored; empty for an undo and for an upgrade.
    :param queries: From each query's folder in the backup to its folder under ``checkpoint``.
    :param terms: Digest of the terms of an upgrade or of a cutover, which lie beside it; else empty.
    :param leader: In a lane that a cutover led elsewhere touches: the leading stream and the number
        of its change, as ``orders/4``. Such a guest has no terms and ends with its leader.
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
    terms: str = ""
    leader: str = ""


class ChangeOutcome(StrEnum):
    """How a change ended."""

    DONE = "done"
    ABANDONED = "abandoned"
    ROLLED_BACK = "rolled_back"


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
