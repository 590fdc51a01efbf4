"""
Metric → what a batch gives to it, and the figure that several batches make.

A figure over a time is a sum over a sum, never a mean of ratios: a batch of a million rows must not
weigh as much as one of three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from airflow_streaming.core.progress import BatchProgress, SourceProgress
from airflow_streaming.core.rules.rule import PER_SOURCE, HealthRule, Metric
from airflow_streaming.core.rules.timeline import Span
from airflow_streaming.core.rules.window import Parts

WORK_ONLY: Final = frozenset(
    {
        Metric.PROCESSING_SHARE,
        Metric.BATCH_SECONDS,
        Metric.BATCH_SHARE,
        Metric.DROPPED_ROWS,
        Metric.STATE_COMMIT_SECONDS,
        Metric.CACHE_MISS_SHARE,
        Metric.BACKLOG_RECORDS,
        Metric.BACKLOG_BYTES,
        Metric.BACKLOG_FILES,
        Metric.BACKLOG_SECONDS,
    }
)
"""Metrics of work being done or waiting: a query with nothing to do is well by them. The others
(state, watermark, observed numbers) stay what they were."""

_OF_BATCH: Final[Mapping[Metric, Callable[[BatchProgress], float | None]]] = {
    Metric.BATCH_SECONDS: lambda row: row.duration_ms / 1000,
    Metric.WATERMARK_DELAY_SECONDS: lambda row: row.watermark_delay_s,
    Metric.STATE_ROWS: lambda row: row.state_rows,
    Metric.STATE_BYTES: lambda row: row.state_bytes,
    Metric.DROPPED_ROWS: lambda row: row.dropped_rows,
    Metric.STATE_COMMIT_SECONDS: lambda row: (
        None if row.state_commit_ms is None else row.state_commit_ms / 1000
    ),
    Metric.CACHE_MISS_SHARE: lambda row: row.cache_miss_share,
}

_OF_SOURCE: Final[Mapping[Metric, Callable[[SourceProgress], float | None]]] = {
    Metric.BACKLOG_RECORDS: lambda source: source.backlog_records,
    Metric.BACKLOG_BYTES: lambda source: source.backlog_bytes,
    Metric.BACKLOG_FILES: lambda source: source.backlog_files,
}


def parts_of(rule: HealthRule, row: BatchProgress, span: Span, interval: float) -> Parts | None:
    """
    Return what a batch gives to the figure of its query; ``None`` if Spark did not report it.

    :param interval: Seconds of the processing trigger; 0 without one.
    """
    metric = rule.metric
    if metric is Metric.INPUT_RATE:
        return (row.input_rows,)
    if metric is Metric.PROCESSING_SHARE:
        return _times(row, span)
    if metric is Metric.BACKLOG_SECONDS:
        backlog = _backlog(row)
        return None if backlog is None else (backlog, 1, row.input_rows, row.duration_ms / 1000)
    if metric is Metric.BATCH_SHARE:
        return (row.duration_ms / 1000 / interval, 1) if interval else None
    if metric is Metric.OBSERVED:
        figure = row.observed.get(rule.column or "")
    else:
        figure = _OF_BATCH[metric](row)
    return None if figure is None else (figure, 1)


def parts_of_sources(metric: Metric, row: BatchProgress) -> dict[str, Parts | None]:
    """Return what a batch gives to the figure of each source."""
    figure_of = _OF_SOURCE[metric]
    found: dict[str, Parts | None] = {}
    for source in row.sources:
        figure, known = figure_of(source), found.get(source.source)
        # A query may read one place twice; the worse counts.
        if known is None or (figure is not None and figure > known[0]):
            found[source.source] = None if figure is None else (figure, 1)
    return found


def figure_of(metric: Metric, sums: Parts) -> float | None:
    """Return the figure that parts add up to; ``None`` if there was nothing to measure."""
    if metric is Metric.PROCESSING_SHARE:
        input_s, processing_s, rows = sums
        return input_s / processing_s if rows and processing_s else None
    if metric is Metric.BACKLOG_SECONDS:
        backlog, batches, rows, processing_s = sums
        if not backlog:
            return 0.0
        return backlog / batches * processing_s / rows if rows else None
    figure, batches = sums
    return figure / batches


def is_per_source(rule: HealthRule) -> bool:
    """Tell whether every source has a figure of its own."""
    return rule.metric in PER_SOURCE


def _times(row: BatchProgress, span: Span) -> Parts | None:
    # Spark divides by the time since its last look for data. With a trigger that looks all the time
    # that is some milliseconds, and a query that easily keeps up would read as hopelessly behind;
    # the time since the last batch is when the rows came.
    rate_in, rate_out = row.input_rows_per_second, row.processed_rows_per_second
    times = [] if span.gap is None else [span.gap]
    if row.input_rows and rate_in:
        times.append(row.input_rows / rate_in)
    if not times:
        return None
    processing = row.input_rows / rate_out if row.input_rows and rate_out else None
    return (
        max(times),
        row.duration_ms / 1000 if processing is None else processing,
        row.input_rows,
    )


def _backlog(row: BatchProgress) -> float | None:
    told = [s.backlog_records for s in row.sources if s.backlog_records is not None]
    return sum(told) if told else None
