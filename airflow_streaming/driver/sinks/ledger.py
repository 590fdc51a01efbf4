"""The present values of all figures, for metrics systems that fetch them or want them whole."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_streaming.driver.sinks.figures import (
    BATCH_FIGURES,
    SINK_FIGURES,
    Figure,
    Kind,
    Point,
)
from airflow_streaming.driver.sinks.port import ProgressEvent, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A value with all its labels."""

    labels: Mapping[str, str]
    value: float


class Ledger:
    """
    The newest batch of every query, and the sums of those before it.

    :param standing: Tells how the sinks stand.
    """

    def __init__(self, stream: str, standing: Standing) -> None:
        self._stream, self._standing = stream, standing
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
        """Return all figures as of one moment."""
        with self._lock:
            return [(figure, self.samples(figure)) for figure in (*BATCH_FIGURES, *SINK_FIGURES)]

    def samples(self, figure: Figure) -> list[Sample]:
        """Return the present values of one figure."""
        if figure in SINK_FIGURES:
            own = {"stream": self._stream}
            return [
                s for status in self._standing() for s in _samples(figure, own, figure.take(status))
            ]
        with self._lock:
            return [
                sample
                for query, event in self._latest.items()
                for sample in _samples(
                    figure, {"stream": self._stream, "query": query}, self._points(figure, event)
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
