"""
A disaster drill: which streams can be recovered from their newest backups, and how fast.

The record of a drill names its streams and never changes. The recovery of each stream is a record that only one
process can create, so a killed drill continues with the streams that have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.model.names import check_names, check_stream_name
from airflow_streaming.model.wire import Record


class RecoveryVerdict(StrEnum):
    """The answer of a drill for one stream, the worst first."""

    LOST = "lost"
    UNPROVEN = "unproven"
    RECOVERED = "recovered"


class RecoveryResult(StrEnum):
    """How the recovery of one stream ended."""

    NO_BACKUP = "no_backup"
    DAMAGED_BACKUP = "damaged_backup"
    REFUSED = "refused"
    """The restore of the backup was refused."""
    INPUT_GONE = "input_gone"
    """A source does not hold the data after the backup any more."""
    FAILED = "failed"
    """A query, or the script, failed on the restored checkpoint."""
    NOT_TRIED = "not_tried"
    """A fault of the drill: no runtime, no script, a store that is away."""
    OUT_OF_TIME = "out_of_time"
    """The queries ran, and did not reach the present in time."""
    NO_ROWS = "no_rows"
    """The batch that was planned when the backup was taken read no row: its files may be gone, which Spark skips."""
    NOTHING_RAN = "nothing_ran"
    """A query of the backup ran no batch, so its state was not opened."""
    RECOVERED = "recovered"

    @property
    def verdict(self) -> RecoveryVerdict:
        return _VERDICTS.get(self, RecoveryVerdict.LOST)


_VERDICTS: Final = {
    RecoveryResult.NOT_TRIED: RecoveryVerdict.UNPROVEN,
    RecoveryResult.OUT_OF_TIME: RecoveryVerdict.UNPROVEN,
    RecoveryResult.NO_ROWS: RecoveryVerdict.UNPROVEN,
    RecoveryResult.NOTHING_RAN: RecoveryVerdict.UNPROVEN,
    RecoveryResult.RECOVERED: RecoveryVerdict.RECOVERED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DisasterDrill(Record):
    """
    A drill of many streams.

    :param home: URI of the home with the live streams, which is only read.
    :param key: Identifies the request; the next run with it continues an unfinished drill.
    :param streams: In the order of the drill.
    :param at: The disaster: recovery points are counted back from here.
    :raises SpecError: a name is wrong, or there twice.
    """

    KIND: ClassVar[str] = "disaster_drill"

    number: int
    home: str
    selector: str
    key: str
    streams: tuple[str, ...]
    by: str
    at: datetime

    def __post_init__(self) -> None:
        check_names("The drill", self.streams)
        for name in self.streams:
            check_stream_name(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecovery(Record):
    """
    The recovery of one stream in a drill.

    :param name: The stream.
    :param backup: Id of its newest backup; empty without one. ``backed_up_at`` is when this was begun.
    :param restore_seconds: Verifying the backup and writing its checkpoints.
    :param run_seconds: From the start of Spark until the queries had read everything.
    :param rows: Rows that were read after the backup; ``batches`` is the number of batches.
    :param kept: URI of the restored checkpoints; empty if they were removed.
    """

    KIND: ClassVar[str] = "stream_recovery"

    drill: int
    name: str
    result: RecoveryResult
    at: datetime
    reason: str = ""
    backup: str = ""
    backed_up_at: datetime | None = None
    restore_seconds: float = 0.0
    run_seconds: float = 0.0
    batches: int = 0
    rows: int = 0
    size: int = 0
    remarks: tuple[str, ...] = ()
    kept: str = ""

    @property
    def recovery_seconds(self) -> float:
        """Return the recovery time."""
        return self.restore_seconds + self.run_seconds


def recovery_point_seconds(drill: DisasterDrill, one: StreamRecovery) -> float | None:
    """Return how old the backup was at the disaster; ``None`` without a backup."""
    if one.backed_up_at is None:
        return None
    return max(0.0, (drill.at - one.backed_up_at).total_seconds())


def worst_first(found: list[StreamRecovery]) -> list[StreamRecovery]:
    """Return recoveries: lost streams, then unproven ones, then the slowest recovery."""
    order = list(RecoveryVerdict)

    def rank(one: StreamRecovery) -> tuple[int, float, str]:
        return order.index(one.result.verdict), -one.recovery_seconds, one.name

    return sorted(found, key=rank)
