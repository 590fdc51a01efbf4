"""
What a driver tells of itself: its heartbeat and the latest progress of every query.

Times in a status are the driver's own; they are compared with each other only, never with the
clock of whoever reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, ClassVar, Self

from airflow_streaming.core.epoch import Host
from airflow_streaming.core.wire import Record


class DriverState(StrEnum):
    """What the driver is doing."""

    STARTING = "starting"
    """The script has not started a query yet."""
    RUNNING = "running"
    STOPPING = "stopping"


class CheckpointOrigin(StrEnum):
    """Who chose a query's checkpoint location."""

    DEPLOYMENT = "deployment"
    SCRIPT = "script"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """
    The figures of one batch: Spark's ``StreamingQueryProgress``, cut to what charts need.

    :param at: Start of the batch, by the driver's clock.
    :param duration_ms: Whole time of the batch (``triggerExecution``).
    :param watermark: Event-time watermark of the batch, ISO 8601 as Spark wrote it.
    """

    query: str
    batch_id: int
    at: str
    input_rows: int
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    duration_ms: int
    watermark: str | None = None
    state_rows: int | None = None

    @classmethod
    def from_spark(cls, query: str, progress: Mapping[str, Any]) -> Self:
        """Take the figures out of a progress as Spark's ``json`` gives it (3.5 to 4.3)."""
        operators = progress.get("stateOperators") or []
        return cls(
            query=query,
            batch_id=int(progress["batchId"]),
            at=str(progress.get("timestamp", "")),
            input_rows=int(progress.get("numInputRows") or 0),
            input_rows_per_second=_rate(progress.get("inputRowsPerSecond")),
            processed_rows_per_second=_rate(progress.get("processedRowsPerSecond")),
            duration_ms=int((progress.get("durationMs") or {}).get("triggerExecution") or 0),
            watermark=(progress.get("eventTime") or {}).get("watermark"),
            state_rows=sum(int(op.get("numRowsTotal") or 0) for op in operators)
            if operators
            else None,
        )


def _rate(value: Any) -> float | None:
    # A batch without duration has an infinite rate, which no record can hold.
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """
    One query as the driver sees it now.

    :param processing: A batch is being worked on (``isTriggerActive``).
    :param data_available: The source has something to read.
    :param batches: Batches committed in this epoch, as far as seen.
    :param progress: The latest batch's figures; ``None`` before the first.
    :param error: Message of the exception that ended it.
    """

    name: str
    id: str
    run_id: str
    checkpoint: str
    checkpoint_origin: CheckpointOrigin
    active: bool
    processing: bool = False
    data_available: bool = False
    message: str = ""
    batches: int = 0
    progress: BatchProgress | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Record):
    """
    The driver's heartbeat.

    :param beat: Rises by one with every write; an observer times how long it stands still.
    :param started_at: Start of the driver.
    :param at: Time of this beat.
    :param first_progress_at: When the first batch of this epoch was seen committed.
    """

    KIND: ClassVar[str] = "status"

    stream: str
    epoch: int
    token: str
    beat: int
    state: DriverState
    host: Host
    pid: int
    started_at: datetime
    at: datetime
    spark_version: str
    application_id: str | None = None
    ui_url: str | None = None
    first_progress_at: datetime | None = None
    queries: tuple[QueryStatus, ...] = ()

    @property
    def batches(self) -> int:
        """Return the batches committed in this epoch over all queries."""
        return sum(query.batches for query in self.queries)

    @property
    def progressed_for(self) -> timedelta:
        """Return how long the driver has been making progress, by its own clock."""
        if self.first_progress_at is None:
            return timedelta(0)
        return max(timedelta(0), self.at - self.first_progress_at)
