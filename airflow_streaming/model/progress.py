"""
The figures of one batch: Spark's progress report, cut to the used parts, with offsets and backlog.

Reports come from another program, in several versions of it, with parts that third-party sources
fill in. An unreadable figure must cost that figure, never the batch's others.

Sources report a backlog in three ways, and most not at all. Sources like Kafka report the newest
position of every partition beside the batch's end. Some have metrics of their own. The file source
of open-source Spark reports neither; the driver counts its files instead.

Kafka and sources that follow it write a position for each partition of each topic, files a number
of their log, others a plain number. Other offsets cannot be ordered, and are reported as such.

A figure that Spark did not report is ``None``, never zero: no rule may read "not measured" as
"nothing there". Reading a report never raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from math import isfinite
from typing import Any, Final, Self

from airflow_streaming.model.metrics import reported_figures
from airflow_streaming.model.spark.failures import mask_hidden

_RECORDS: Final = ("maxOffsetsBehindLatest",)
_BYTES: Final = ("numBytesOutstanding", "estimatedTotalBytesBehindLatest")
_FILES: Final = ("numFilesOutstanding",)
_MAX_TEXT: Final = 1_000_000
"""Characters of an offset that are parsed; Kafka needs about twenty for each partition."""

MAX_SOURCES: Final = 20
"""Sources whose figures are kept; a row of the history with so many still fits its line."""
MAX_OFFSET: Final = 500
"""Characters of an offset that are kept."""
_MAX_DESCRIPTION: Final = 200
_MAX_OBSERVED: Final = 50
_MAX_NAME: Final = 100
_DEEPEST: Final = 5
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_PHASES: Final = 20
STATE_METRICS: Final = (
    *("rocksdbGetCount", "rocksdbGetLatency", "rocksdbPutCount", "rocksdbPutLatency"),
    *("rocksdbTotalBytesRead", "rocksdbTotalBytesWritten", "rocksdbTotalBytesReadThroughIterator"),
    *("rocksdbReadBlockCacheHitCount", "rocksdbReadBlockCacheMissCount"),
    *("rocksdbCommitFlushLatency", "rocksdbCommitCompactLatency", "rocksdbCommitCheckpointLatency"),
    *("rocksdbCommitFileSyncLatencyMs", "rocksdbChangeLogWriterCommitLatencyMs"),
    *("rocksdbTotalBytesWrittenByFlush", "rocksdbTotalCompactionLatencyMs"),
    *("rocksdbTotalBytesReadByCompaction", "rocksdbTotalBytesWrittenByCompaction"),
    *("rocksdbFilesCopied", "rocksdbFilesReused", "rocksdbBytesCopied", "rocksdbSstFileSize"),
    *("rocksdbWriterStallLatencyMs", "rocksdbLoadLatencyMs", "rocksdbPinnedBlocksMemoryUsage"),
)
"""RocksDB's figures of a state operator that are kept, as Spark names them; which of them there are
depends on the release."""


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of the report; an empty one when it is something else."""
    return value if isinstance(value, Mapping) else {}


def objects(value: Any) -> Sequence[Mapping[str, Any]]:
    """Return the objects in a list of the report."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def number(value: Any) -> float | None:
    """Return a finite number, also from a text, as sources write their metrics."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def amount(value: Any) -> float | None:
    """Return a number that is not negative."""
    found = number(value)
    return found if found is not None and found >= 0 else None


def whole(value: Any) -> int | None:
    """Return a count; ``None`` for a negative one, which is how Spark says that it has none."""
    found = amount(value)
    return None if found is None else int(found)


def numbers(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def backlog_records(source: Mapping[str, Any]) -> float | None:
    """
    Return the records after a batch's end.

    Taken from the newest and the end offset where both are positions of partitions, summed over
    the partitions, none of them below zero. A partition that the batch did not know counts from
    its beginning. Otherwise ``maxOffsetsBehindLatest``, which speaks of the partition that is
    furthest behind and so is the least that the backlog can be.
    """
    latest, end = positions(source.get("latestOffset")), positions(source.get("endOffset"))
    if latest is not None and end is not None:
        return sum(max(0.0, there - end.get(where, 0.0)) for where, there in latest.items())
    return _metric(source, _RECORDS)


def backlog_bytes(source: Mapping[str, Any]) -> float | None:
    """Return the bytes after a batch's end, where the source has a metric of them."""
    return _metric(source, _BYTES)


def backlog_files(source: Mapping[str, Any]) -> float | None:
    """Return the files after a batch's end, where the source has a metric of them."""
    return _metric(source, _FILES)


def positions(offset: Any) -> dict[tuple[str, str], float] | None:
    """
    Return the position of every partition in an offset like ``{"topic": {"0": 7}}``.

    ``None`` for anything else, such as the single number that other sources count by: it may be a
    time or the number of a log file.
    """
    topics = _parsed(offset)
    if not isinstance(topics, Mapping) or not topics:
        return None
    found: dict[tuple[str, str], float] = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, Mapping):
            return None
        for partition, position in partitions.items():
            known = None if isinstance(position, str) else amount(position)
            if known is None or not str(partition).isdecimal():
                return None
            found[str(topic), str(partition)] = known
    return found


def _parsed(offset: Any) -> Any:
    # Offsets of some sources arrive as text that holds JSON.
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset) if len(offset) <= _MAX_TEXT else None
    except (ValueError, RecursionError):
        return None


def _metric(source: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    metrics = mapping(source.get("metrics"))
    told = numbers(amount(metrics.get(name)) for name in names)
    return told[0] if told else None


def is_at_least(mine: str, other: str) -> bool | None:
    """Tell whether an offset is as far as another of the same source; ``None`` when unknown."""
    if mine == other:
        return True
    try:
        return _at_least(json.loads(mine), json.loads(other))
    except (ValueError, RecursionError):
        # A parsed document can still be too deep for a recursive walk.
        return None


def _at_least(mine: Any, other: Any) -> bool | None:
    if _is_number(mine) and _is_number(other):
        return bool(mine >= other)
    if not isinstance(mine, dict) or not isinstance(other, dict):
        return None
    # A partition that only one of them knows was added or removed; its position is as good as 0.
    answers = [
        _at_least(mine.get(key, _nothing(other.get(key))), other.get(key, _nothing(mine.get(key))))
        for key in mine.keys() | other.keys()
    ]
    if None in answers:
        return None
    return all(answers)


def _nothing(like: Any) -> Any:
    return {} if isinstance(like, dict) else 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """
    A source's input to a batch, and its backlog.

    :param source: Spark's description of it, at most 200 characters.
    :param backlog_records: Records after the batch's end offset, where the source reports them.
    :param backlog_bytes: The same in bytes.
    :param backlog_files: The same in files.
    :param end_offset: Where the batch ended, in the source's own terms, at most 500 characters.
    :param loss_in_s: Seconds until the source removes the first unread data; without unread data, data
        that arrives now.
    :param kept_for_s: Seconds for which the source keeps data.
    :param read_until: Everything that the source got before was read; ISO 8601.
    :param loss_gap: Why ``loss_in_s`` is unknown, a ``LossGap``.
    """

    source: str
    input_rows: int = 0
    backlog_records: float | None = None
    backlog_bytes: float | None = None
    backlog_files: float | None = None
    end_offset: str | None = None
    loss_in_s: float | None = None
    kept_for_s: float | None = None
    read_until: str | None = None
    loss_gap: str = ""

    @property
    def loss_share(self) -> float | None:
        """Return the share of the retention that is left to the oldest unread data."""
        if self.loss_in_s is None or not self.kept_for_s:
            return None
        return min(1.0, self.loss_in_s / self.kept_for_s)

    @classmethod
    def from_spark(cls, source: Mapping[str, Any]) -> Self:
        """Take the figures out of one of a progress's ``sources``."""
        return cls(
            source=mask_hidden(str(source.get("description", "")))[:_MAX_DESCRIPTION],
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
    :param state_commit_ms: Time to commit one state store, of the slowest operator:
        ``commitTimeMs``, which Spark adds up over all stores of an operator, divided by their
        number. RocksDB's own latencies are parts of it, other stores have none, and their names
        change between versions; so the whole is taken, which is the same for every store.
    :param cache_miss_share: Misses of RocksDB's block cache, as a share of its look-ups.
    :param observed: Numbers from ``df.observe`` by ``name.column``, at most 50.
    :param sources: The first 20.
    :param phases_ms: Spark's ``durationMs``: the time of every phase of the batch.
    :param state_metrics: The reported metrics of ``STATE_METRICS`` from RocksDB, summed over the
        state operators of the query.
    :param executors: Executors that the application had when the batch was seen, without the
        driver.
    :param output_rows: Rows that the sink has written; ``None`` for sinks that do not count, which
        Spark reports as -1: files, ``foreachBatch``, and every other sink of the older interface.
    :param figures: Metrics that have no field here, by name; see ``MetricRow.from_spark``.
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
    phases_ms: Mapping[str, float] = field(default_factory=dict)
    state_metrics: Mapping[str, float] = field(default_factory=dict)
    executors: int | None = None
    output_rows: int | None = None
    figures: Mapping[str, float] = field(default_factory=dict)

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
            phases_ms=dict(islice(_phases(duration), _MAX_PHASES)),
            state_metrics=_state_metrics(operators),
            output_rows=whole(mapping(progress.get("sink")).get("numOutputRows")),
            figures=reported_figures(progress),
        )


def moment(value: Any) -> datetime | None:
    """Return a time of a report, in UTC where it names no zone; ``None`` for anything else."""
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def watermark_at(text: Any) -> datetime | None:
    """Return a watermark's time; ``None`` at the beginning of time, where it is until rows move it."""
    found = moment(text)
    return None if found is None or found <= _BEGINNING else found


def offset_text(offset: Any) -> str | None:
    """Return an offset in the source's own terms, cut; ``None`` without one."""
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
    begun, mark = moment(at), watermark_at(watermark)
    return None if begun is None or mark is None else (begun - mark).total_seconds()


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


def _phases(duration: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in duration.items():
        if (found := amount(value)) is not None:
            yield str(name)[:_MAX_NAME], found


def _state_metrics(operators: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    custom = [mapping(operator.get("customMetrics")) for operator in operators]
    told = ((name, _sum(custom, name)) for name in STATE_METRICS)
    return {name: float(value) for name, value in told if value is not None}


def _observed(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    for name, inner in mapping(value).items():
        here = f"{path}.{name}" if path else str(name)
        if isinstance(inner, Mapping):
            if depth < _DEEPEST:
                yield from _observed(inner, here, depth + 1)
        elif depth > 0 and not isinstance(inner, str) and (found := number(inner)) is not None:
            yield here[:_MAX_NAME], found
