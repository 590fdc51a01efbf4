"""The newest figures of a stream over all its queries: the same for the page and the shell. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from airflow_streaming.model.observation import ENDED, VerdictState
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.supervision.stream_status import Standing, StreamStatus

UNITS: Final = ("records", "files", "bytes")
"""Units in which sources report their backlog."""
_DOWN: Final = frozenset({*Standing, *(state.value for state in ENDED)})
"""Standings without a driver, of which the last batch's rates tell nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    """
    The newest figures of a stream; ``None`` where no query reports one.

    :param input_rate: Rows per second that arrive, of all queries; 0 of a stream that waits for data.
    :param processing_rate: Rows per second that the newest batches processed.
    :param batch_ms: Duration of the longest newest batch, in milliseconds.
    :param backlog: Unread data of all sources, by unit; a source that several queries read counts once.
    :param watermark_delay_s: Of the query that is furthest behind, in seconds.
    """

    input_rate: float | None = None
    processing_rate: float | None = None
    batch_ms: float | None = None
    backlog: Mapping[str, float | None] = field(default_factory=dict)
    watermark_delay_s: float | None = None
    state_rows: int | None = None


def figures_of(status: StreamStatus) -> StreamFigures:
    """Return the figures of a stream; rates only while a driver processes batches."""
    recorded = status.seen.status if status.seen else None
    latest = [q.progress for q in recorded.queries if q.progress] if recorded else []
    word = status.standing.word
    is_idle = word == VerdictState.IDLE.value
    flow = [] if is_idle or word in _DOWN else latest
    delays = [row.watermark_delay_s for row in latest if row.watermark_delay_s is not None]
    return StreamFigures(
        input_rate=0.0 if is_idle else _sum(row.input_rows_per_second for row in flow),
        processing_rate=_sum(row.processed_rows_per_second for row in flow),
        batch_ms=max((row.duration_ms for row in flow), default=None),
        backlog=backlog_of_sources(latest),
        watermark_delay_s=max(delays, default=None),
        state_rows=_sum(row.state_rows for row in latest),
    )


def backlog_of_sources(latest: Sequence[BatchProgress]) -> dict[str, float | None]:
    """Return the backlog of all sources; of a source that several queries read, the largest."""
    return {unit: _unread(latest, f"backlog_{unit}") for unit in UNITS}


def _unread(latest: Sequence[BatchProgress], field: str) -> float | None:
    most: dict[str, float] = {}
    for source in (source for row in latest for source in row.sources):
        amount = getattr(source, field)
        if amount is not None:
            most[source.source] = max(amount, most.get(source.source, 0.0))
    unread: float | None = _sum(most.values())
    return unread


def _sum(values: Iterable[Any]) -> Any:
    """Return the sum of the known values; ``None`` without any, and beyond the largest number."""
    found = [value for value in values if value is not None]
    total: Any = sum(found) if found else None
    return total if total is None or isfinite(total) else None
