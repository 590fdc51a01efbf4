"""
The figures that leave a driver, and their present values.

Every figure comes from a batch's progress (or from a sink's status), so a metrics system shows
Spark's own numbers. A number that Spark did not report has no value, not zero.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from airflow_streaming.driver.sinks.port import ProgressEvent, Standing
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.progress import BatchProgress, SourceProgress

PREFIX: Final = "spark_streaming"

Point = tuple[tuple[str, ...], float]
"""Values of a figure's own labels, and its value."""

_SOURCE: Final = ("source", "description")


class Kind(StrEnum):
    """How the values of a figure follow each other."""

    GAUGE = "gauge"
    """The newest replaces the one before."""
    COUNTER = "counter"
    """They add up over the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """
    A figure.

    :param name: Without prefix and unit.
    :param unit: ``seconds``, ``bytes``, ``ratio`` or empty: then the name says which things are
        counted.
    :param labels: Labels that distinguish its points within a query, or within a driver.
    :param take: Returns its points in one progress or sink status; empty without a value.
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


def _phases(progress: BatchProgress) -> Iterator[Point]:
    for phase, milliseconds in progress.phases_ms.items():
        yield (phase,), milliseconds / 1000


def _state_metrics(progress: BatchProgress) -> Iterator[Point]:
    for name, value in progress.state_metrics.items():
        yield (name,), value


def _started_at(progress: BatchProgress) -> float | None:
    try:
        begun = datetime.fromisoformat(progress.at)
    except ValueError:
        return None
    return begun.timestamp() if begun.tzinfo is not None else None


def _of_metrics() -> Iterator[Figure]:
    """Yield the figures that rules know too, as the table of metrics has them."""
    for metric in Metric:
        row = metric.row
        if row.export:
            yield Figure(
                name=row.export,
                unit=row.unit.suffix,
                kind=Kind.COUNTER if row.adds_up else Kind.GAUGE,
                labels=() if row.of_source is None else _SOURCE,
                help=row.help,
                take=_one(metric.batch_figure)
                if row.of_source is None
                else _by_source(row.of_source),
            )


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
    Figure(name="batch_id", help="Number of the latest batch.", take=_one(lambda p: p.batch_id)),
    Figure(
        name="batch_start_timestamp",
        unit="seconds",
        help="Start of the latest batch, by the driver's clock, in Unix time.",
        take=_one(_started_at),
    ),
    Figure(
        name="batch_input_rows",
        help="Rows read by the latest batch.",
        take=_one(lambda p: p.input_rows),
    ),
    Figure(
        name="batch_output_rows",
        help="Rows written by the latest batch, where the sink counts them.",
        take=_one(lambda p: p.output_rows),
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
        name="source_input_rows",
        labels=_SOURCE,
        help="Rows that the source gave to the latest batch.",
        take=_by_source(lambda s: s.input_rows),
    ),
    Figure(
        name="observed",
        labels=("metric",),
        help="Observed metric of the latest batch, by name and column.",
        take=_observed,
    ),
    Figure(
        name="batch_phase_duration",
        unit="seconds",
        labels=("phase",),
        help="Time of one phase of the latest batch, by Spark's name for it.",
        take=_phases,
    ),
    Figure(
        name="state_store_metric",
        labels=("metric",),
        help="RocksDB metric of the latest batch, by Spark's name for it.",
        take=_state_metrics,
    ),
    Figure(
        name="executors",
        help="Executors of the application when the latest batch was seen.",
        take=_one(lambda p: p.executors),
    ),
    *_of_metrics(),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A value with all its labels."""

    labels: Mapping[str, str]
    value: float


class Ledger:
    """
    The newest batch of every query, and the sums of those before it.

    :param tags: Labels of every sample.
    :param standing: Tells how the sinks stand.
    """

    def __init__(self, tags: Mapping[str, str], standing: Standing) -> None:
        self.tags, self._standing = tags, standing
        self._lock = threading.RLock()
        self._latest: dict[str, ProgressEvent] = {}
        self._totals: dict[tuple[str, str], dict[tuple[str, ...], float]] = {}

    def take(self, events: Iterable[ProgressEvent]) -> None:
        """Take the figures of newer batches."""
        with self._lock:
            for event in events:
                self._latest[event.query] = event
                for figure in BATCH_FIGURES:
                    if figure.kind is Kind.COUNTER:
                        self._add(figure, event)

    def latest(self) -> Sequence[ProgressEvent]:
        """Return the newest event of every query."""
        with self._lock:
            return tuple(self._latest.values())

    def readings(self) -> list[tuple[Figure, list[Sample]]]:
        with self._lock:
            return [(figure, self.samples(figure)) for figure in (*BATCH_FIGURES, *SINK_FIGURES)]

    def samples(self, figure: Figure) -> list[Sample]:
        """Return the present values of one figure."""
        if figure in SINK_FIGURES:
            return [
                sample
                for status in self._standing()
                for sample in _samples(figure, self.tags, figure.take(status))
            ]
        with self._lock:
            return [
                sample
                for query, event in self._latest.items()
                for sample in _samples(
                    figure, {**self.tags, "query": query}, self._points(figure, event)
                )
            ]

    def _points(self, figure: Figure, event: ProgressEvent) -> Iterable[Point]:
        if figure.kind is Kind.COUNTER:
            return self._totals.get((event.query, figure.name), {}).items()
        return figure.take(event.progress)

    def _add(self, figure: Figure, event: ProgressEvent) -> None:
        totals = self._totals.setdefault((event.query, figure.name), {})
        for labels, value in figure.take(event.progress):
            totals[labels] = totals.get(labels, 0) + value


def _samples(figure: Figure, own: Mapping[str, str], points: Iterable[Point]) -> list[Sample]:
    return [
        Sample(labels={**own, **dict(zip(figure.labels, values, strict=True))}, value=value)
        for values, value in points
    ]
