"""
The rules that operations guides repeat, with the thresholds they give.

Every rule is an alert until somebody makes more of it. A rule whose limit only the owner of a
stream can know is left out until the limit is given. ``docs/health.md`` says where each default is
from.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from airflow_streaming.core.rules.rule import Comparison, HealthRule, Metric

BACKLOG_MEAN: Final = timedelta(minutes=10)
"""A backlog is judged by its mean over this time, so that one burst is no alarm."""

LIMIT_SHARE: Final = 0.8
"""Share of a limit on state from which on there is something to do about it."""

_ROOM: Final = 0.9
"""A limit that was passed is clear again below this share of it."""


def recommended_rules(
    *,
    silent_for: timedelta | None = timedelta(minutes=15),
    watermark_sla: timedelta | None = None,
    state_rows_limit: int | None = None,
    state_bytes_limit: int | None = None,
    backlog_records: float | None = None,
    backlog_bytes: float | None = None,
    backlog_files: float | None = None,
    backlog_seconds: timedelta | None = timedelta(minutes=10),
    commit_for: timedelta | None = timedelta(seconds=10),
    cache_miss_share: float | None = 0.5,
    no_commit_for: timedelta | None = timedelta(minutes=15),
    observed: Mapping[str, float] | None = None,
) -> tuple[HealthRule, ...]:
    """
    Return the recommended rules; ``None`` for a limit leaves its rule out.

    :param silent_for: Time without a single row, after which the input has stopped.
    :param watermark_sla: The most that the watermark may be behind the driver's clock.
    :param state_rows_limit: Rows of state a query can afford; the rule fires at 80 %.
    :param state_bytes_limit: The same in bytes of memory.
    :param backlog_records: Records a source may have waiting, as a mean over 10 minutes.
    :param backlog_bytes: The same in bytes.
    :param backlog_files: The same in files.
    :param backlog_seconds: The same as the time that processing the backlog would take.
    :param commit_for: The longest commit of a state store, as a mean over 10 minutes.
    :param cache_miss_share: Misses among look-ups in RocksDB's block cache, over 10 minutes.
    :param no_commit_for: Time a query may have work without committing a batch.
    :param observed: Upper bounds on numbers of ``df.observe`` by ``name.column``.
    """
    found = (
        *_flow(silent_for),
        *_late_data(watermark_sla),
        *_state(state_rows_limit, state_bytes_limit),
        *_backlog("backlog_records", Metric.BACKLOG_RECORDS, backlog_records),
        *_backlog("backlog_bytes", Metric.BACKLOG_BYTES, backlog_bytes),
        *_backlog("backlog_files", Metric.BACKLOG_FILES, backlog_files),
        *_backlog("backlog_seconds", Metric.BACKLOG_SECONDS, _seconds(backlog_seconds)),
        *_store(_seconds(commit_for), cache_miss_share),
        *_commits(_seconds(no_commit_for)),
    )
    return found + tuple(_observed(column, bound) for column, bound in (observed or {}).items())


def _seconds(limit: timedelta | None) -> float | None:
    return None if limit is None else limit.total_seconds()


def _flow(silent_for: timedelta | None) -> list[HealthRule]:
    rules = [
        HealthRule(
            name="falling_behind",
            metric=Metric.PROCESSING_SHARE,
            comparison=Comparison.BELOW,
            bound=0.8,
            mean_over=timedelta(minutes=1),
            sustained_for=timedelta(minutes=5),
            clear_bound=0.95,
            clear_for=timedelta(minutes=2),
        ),
        HealthRule(
            name="batch_over_interval",
            metric=Metric.BATCH_SHARE,
            bound=3.0,
            sustained_for=timedelta(minutes=5),
            clear_bound=1.0,
            clear_for=timedelta(minutes=2),
        ),
    ]
    if silent_for is None:
        return rules
    stopped = HealthRule(
        name="input_stopped",
        metric=Metric.INPUT_RATE,
        comparison=Comparison.BELOW,
        # Nothing is below a rate of zero; less than half a row in all that time is none.
        bound=0.5 / silent_for.total_seconds(),
        mean_over=silent_for,
        clear_for=timedelta(0),
    )
    return [stopped, *rules]


def _late_data(watermark_sla: timedelta | None) -> list[HealthRule]:
    dropped = HealthRule(
        name="rows_dropped",
        metric=Metric.DROPPED_ROWS,
        bound=0.0,
        clear_for=timedelta(minutes=10),
    )
    if watermark_sla is None:
        return [dropped]
    late = HealthRule(
        name="watermark_late",
        metric=Metric.WATERMARK_DELAY_SECONDS,
        bound=watermark_sla.total_seconds(),
        clear_for=timedelta(minutes=1),
    )
    return [late, dropped]


def _state(rows: int | None, size: int | None) -> list[HealthRule]:
    limits = (
        ("state_rows", Metric.STATE_ROWS, rows),
        ("state_bytes", Metric.STATE_BYTES, size),
    )
    return [
        HealthRule(
            name=name,
            metric=metric,
            bound=LIMIT_SHARE * limit,
            clear_bound=_ROOM * LIMIT_SHARE * limit,
        )
        for name, metric, limit in limits
        if limit is not None
    ]


def _backlog(name: str, metric: Metric, limit: float | None) -> list[HealthRule]:
    if limit is None:
        return []
    return [
        HealthRule(
            name=name,
            metric=metric,
            bound=limit,
            mean_over=BACKLOG_MEAN,
            clear_bound=_ROOM * limit,
        )
    ]


def _store(commit_s: float | None, miss_share: float | None) -> list[HealthRule]:
    limits = (
        ("slow_state_commit", Metric.STATE_COMMIT_SECONDS, commit_s),
        ("block_cache_misses", Metric.CACHE_MISS_SHARE, miss_share),
    )
    return [
        HealthRule(
            name=name,
            metric=metric,
            bound=limit,
            mean_over=timedelta(minutes=10),
            clear_bound=_ROOM * limit,
        )
        for name, metric, limit in limits
        if limit is not None
    ]


def _commits(limit: float | None) -> list[HealthRule]:
    if limit is None:
        return []
    return [HealthRule(name="no_commit", metric=Metric.COMMIT_AGE_SECONDS, bound=limit)]


def _observed(column: str, bound: float) -> HealthRule:
    return HealthRule(name=f"observed_{column}", metric=Metric.OBSERVED, column=column, bound=bound)
