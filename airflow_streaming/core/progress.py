"""
The figures of one batch: Spark's progress report, cut to what rules and charts need.

A figure that Spark did not report is ``None``, never zero: no rule may take "not measured" for
"nothing there". Whatever a report holds, reading it raises nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Self

from airflow_streaming.core.backlog import backlog_bytes, backlog_files, backlog_records
from airflow_streaming.core.reported import amount, mapping, number, numbers, objects, whole

MAX_SOURCES: Final = 20
"""Sources whose figures are kept; a row of the history with so many still fits its line."""

MAX_OFFSET: Final = 500
"""Characters of an offset that are kept."""

_MAX_DESCRIPTION: Final = 200
_MAX_OBSERVED: Final = 50
_MAX_NAME: Final = 100
_DEEPEST: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """
    What one source of a query gave to a batch, and what it still holds.

    :param source: Spark's description of it, at most 200 characters.
    :param backlog_records: Records after the batch's end offset, where the source tells them.
    :param backlog_bytes: The same in bytes.
    :param backlog_files: The same in files.
    :param end_offset: Where the batch ended, in the source's own terms, at most 500 characters.
    """

    source: str
    input_rows: int = 0
    backlog_records: float | None = None
    backlog_bytes: float | None = None
    backlog_files: float | None = None
    end_offset: str | None = None

    @classmethod
    def from_spark(cls, source: Mapping[str, Any]) -> Self:
        """Take the figures out of one of a progress's ``sources``."""
        return cls(
            source=str(source.get("description", ""))[:_MAX_DESCRIPTION],
            input_rows=whole(source.get("numInputRows")) or 0,
            backlog_records=backlog_records(source),
            backlog_bytes=backlog_bytes(source),
            backlog_files=backlog_files(source),
            end_offset=offset_text(source.get("endOffset")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """
    The figures of one batch.

    :param at: Start of the batch, by the driver's clock.
    :param duration_ms: Whole time of the batch (``triggerExecution``).
    :param watermark: Event-time watermark of the batch, ISO 8601 as Spark wrote it.
    :param watermark_delay_s: Start of the batch minus its watermark; both are the driver's times.
    :param state_bytes: Memory of the state stores (``memoryUsedBytes``).
    :param dropped_rows: Rows that came behind the watermark and were dropped.
    :param state_commit_ms: Time to commit one state store, of the operator that needs longest:
        ``commitTimeMs``, which Spark adds up over all stores of an operator, divided by their
        number. RocksDB's own latencies are parts of it, other stores have none, and their names
        change between versions; so the whole is taken, which is the same for every store.
    :param cache_miss_share: Misses of RocksDB's block cache, as a share of its look-ups.
    :param observed: Numbers from ``df.observe`` by ``name.column``, at most 50.
    :param sources: The first 20.
    """

    query: str
    batch_id: int
    at: str
    input_rows: int
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    duration_ms: int
    watermark: str | None = None
    watermark_delay_s: float | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    dropped_rows: int | None = None
    state_commit_ms: float | None = None
    cache_miss_share: float | None = None
    observed: Mapping[str, float] = field(default_factory=dict)
    sources: tuple[SourceProgress, ...] = ()

    @classmethod
    def from_spark(cls, query: str, progress: Mapping[str, Any]) -> Self:
        """Take the figures out of a progress as Spark's ``json`` gives it (3.5 to 4.3)."""
        operators = objects(progress.get("stateOperators"))
        batch_id, duration = whole(progress.get("batchId")), mapping(progress.get("durationMs"))
        at = progress.get("timestamp")
        watermark = mapping(progress.get("eventTime")).get("watermark")
        return cls(
            query=query,
            batch_id=-1 if batch_id is None else batch_id,
            at=_text(at) or "",
            input_rows=whole(progress.get("numInputRows")) or 0,
            input_rows_per_second=number(progress.get("inputRowsPerSecond")),
            processed_rows_per_second=number(progress.get("processedRowsPerSecond")),
            duration_ms=whole(duration.get("triggerExecution")) or 0,
            watermark=_text(watermark),
            watermark_delay_s=_delay(at, watermark),
            state_rows=_sum(operators, "numRowsTotal"),
            state_bytes=_sum(operators, "memoryUsedBytes"),
            dropped_rows=_sum(operators, "numRowsDroppedByWatermark"),
            state_commit_ms=max(numbers(map(_commit_ms, operators)), default=None),
            cache_miss_share=_cache_miss_share(operators),
            observed=dict(islice(_observed(progress.get("observedMetrics")), _MAX_OBSERVED)),
            sources=tuple(
                SourceProgress.from_spark(source)
                for source in objects(progress.get("sources"))[:MAX_SOURCES]
            ),
        )


def offset_text(offset: Any) -> str | None:
    """Return an offset in the source's own terms, cut; ``None`` where there is none."""
    if offset is None:
        return None
    if isinstance(offset, str):
        return offset[:MAX_OFFSET]
    try:
        return json.dumps(offset, separators=(",", ":"))[:MAX_OFFSET]
    except (TypeError, ValueError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    return value[:_MAX_NAME] if isinstance(value, str) else None


def _delay(at: Any, watermark: Any) -> float | None:
    begun, mark = _moment(at), _moment(watermark)
    # The watermark is at the beginning of time until the first rows have moved it.
    if begun is None or mark is None or mark.timestamp() == 0:
        return None
    return (begun - mark).total_seconds()


def _moment(value: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _sum(operators: Sequence[Mapping[str, Any]], name: str) -> int | None:
    told = numbers(amount(operator.get(name)) for operator in operators)
    return int(sum(told)) if told else None


def _commit_ms(operator: Mapping[str, Any]) -> float | None:
    total = amount(operator.get("commitTimeMs"))
    return None if total is None else total / (whole(operator.get("numStateStoreInstances")) or 1)


def _cache_miss_share(operators: Sequence[Mapping[str, Any]]) -> float | None:
    custom = [mapping(operator.get("customMetrics")) for operator in operators]
    misses = _sum(custom, "rocksdbReadBlockCacheMissCount")
    hits = _sum(custom, "rocksdbReadBlockCacheHitCount")
    if misses is None or hits is None or not hits + misses:
        return None
    return misses / (hits + misses)


def _observed(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    for name, inner in mapping(value).items():
        here = f"{path}.{name}" if path else str(name)
        if isinstance(inner, Mapping):
            if depth < _DEEPEST:
                yield from _observed(inner, here, depth + 1)
        elif depth > 0 and not isinstance(inner, str) and (found := number(inner)) is not None:
            yield here[:_MAX_NAME], found
