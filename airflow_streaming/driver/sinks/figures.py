"""
The figures that leave a driver, in one table: Prometheus, StatsD and OpenTelemetry all read it.

A figure is taken from a batch's progress (or from a sink's status) and nowhere else, so what a
metrics system shows is what Spark reported. What Spark did not report has no value, not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from airflow_streaming.core.progress import BatchProgress, SourceProgress

PREFIX: Final = "spark_streaming"


class Kind(StrEnum):
    """How the values of a figure follow each other."""

    GAUGE = "gauge"
    """The newest replaces the one before."""
    COUNTER = "counter"
    """They add up over the epoch."""


Point = tuple[tuple[str, ...], float]
"""Values of a figure's own labels, and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """
    One figure.

    :param name: Without prefix and unit.
    :param unit: ``seconds``, ``bytes``, ``ratio`` or empty: the name says what is counted.
    :param labels: What its points differ by within a query, or within a driver.
    :param take: Its points in one progress or sink status; none when there is nothing to tell.
    """

    name: str
    help: str
    take: Callable[[Any], Iterable[Point]]
    unit: str = ""
    kind: Kind = Kind.GAUGE
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """Return the name with its unit, e.g. ``batch_duration_seconds``."""
        return f"{self.name}_{self.unit}" if self.unit else self.name


def _one(read: Callable[[Any], float | None]) -> Callable[[Any], Iterable[Point]]:
    def take(told: Any) -> Iterable[Point]:
        value = read(told)
        return () if value is None else (((), value),)

    return take


def _by_source(read: Callable[[SourceProgress], float | None]) -> Callable[[Any], Iterable[Point]]:
    def take(progress: BatchProgress) -> Iterator[Point]:
        for position, source in enumerate(progress.sources):
            value = read(source)
            if value is not None:
                yield (str(position), source.source), value

    return take


def _observed(progress: BatchProgress) -> Iterator[Point]:
    for name, value in progress.observed.items():
        yield (name,), value


def _started_at(progress: BatchProgress) -> float | None:
    try:
        begun = datetime.fromisoformat(progress.at)
    except ValueError:
        return None
    return begun.timestamp() if begun.tzinfo is not None else None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


_SOURCE: Final = ("source", "description")

BATCH_FIGURES: Final = (
    Figure(
        name="batches",
        kind=Kind.COUNTER,
        help="Batches committed in this epoch.",
        take=_one(lambda p: 1),
    ),
    Figure(
        name="input_rows",
        kind=Kind.COUNTER,
        help="Rows read in this epoch.",
        take=_one(lambda p: p.input_rows),
    ),
    Figure(
        name="dropped_rows",
        kind=Kind.COUNTER,
        help="Rows that came behind the watermark and were dropped, in this epoch.",
        take=_one(lambda p: p.dropped_rows),
    ),
    Figure(name="batch_id", help="Number of the latest batch.", take=_one(lambda p: p.batch_id)),
    Figure(
        name="batch_start_timestamp",
        unit="seconds",
        help="Start of the latest batch, by the driver's clock, in Unix time.",
        take=_one(_started_at),
    ),
    Figure(
        name="batch_duration",
        unit="seconds",
        help="Whole time of the latest batch.",
        take=_one(lambda p: _seconds(p.duration_ms)),
    ),
    Figure(
        name="batch_input_rows",
        help="Rows read by the latest batch.",
        take=_one(lambda p: p.input_rows),
    ),
    Figure(
        name="input_rows_per_second",
        help="Rate at which rows arrived for the latest batch.",
        take=_one(lambda p: p.input_rows_per_second),
    ),
    Figure(
        name="processed_rows_per_second",
        help="Rate at which the latest batch processed rows.",
        take=_one(lambda p: p.processed_rows_per_second),
    ),
    Figure(
        name="watermark_delay",
        unit="seconds",
        help="Start of the latest batch minus its watermark.",
        take=_one(lambda p: p.watermark_delay_s),
    ),
    Figure(
        name="state_rows",
        help="Rows in the state stores after the latest batch.",
        take=_one(lambda p: p.state_rows),
    ),
    Figure(
        name="state_memory",
        unit="bytes",
        help="Memory used by the state stores after the latest batch.",
        take=_one(lambda p: p.state_bytes),
    ),
    Figure(
        name="state_commit_duration",
        unit="seconds",
        help="Time to commit one state store in the latest batch, of the slowest operator.",
        take=_one(lambda p: _seconds(p.state_commit_ms)),
    ),
    Figure(
        name="state_cache_miss",
        unit="ratio",
        help="Misses of RocksDB's block cache as a share of its look-ups in the latest batch.",
        take=_one(lambda p: p.cache_miss_share),
    ),
    Figure(
        name="source_input_rows",
        labels=_SOURCE,
        help="Rows that the source gave to the latest batch.",
        take=_by_source(lambda s: s.input_rows),
    ),
    Figure(
        name="source_backlog_records",
        labels=_SOURCE,
        help="Records that the source held after the latest batch.",
        take=_by_source(lambda s: s.backlog_records),
    ),
    Figure(
        name="source_backlog",
        unit="bytes",
        labels=_SOURCE,
        help="Bytes that the source held after the latest batch.",
        take=_by_source(lambda s: s.backlog_bytes),
    ),
    Figure(
        name="source_backlog_files",
        labels=_SOURCE,
        help="Files that the source held after the latest batch.",
        take=_by_source(lambda s: s.backlog_files),
    ),
    Figure(
        name="observed",
        labels=("metric",),
        help="Observed metric of the latest batch, by name and column.",
        take=_observed,
    ),
)
"""Taken from every ``BatchProgress``."""

SINK_FIGURES: Final = (
    Figure(
        name="sink_sent_reports",
        kind=Kind.COUNTER,
        labels=("sink",),
        help="Progress reports that the sink took in this epoch.",
        take=lambda status: (((status.sink,), status.sent),),
    ),
    Figure(
        name="sink_dropped_reports",
        kind=Kind.COUNTER,
        labels=("sink",),
        help="Progress reports given up in this epoch because the sink was slow or away.",
        take=lambda status: (((status.sink,), status.dropped),),
    ),
)
"""Taken from every ``SinkStatus``, whose counts are sums already."""
