"""
Random histories of a query: busy and idle times, moved clocks, holes, figures that come and go.

Times are eighths of a second, which floats hold exactly, so that two ways to add them up agree.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from airflow_streaming.model.health_rules import Comparison, HealthRule, Severity
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.model.status import DriverState, QueryStatus, Status
from tests.unit.supervision.builders import BEGUN, a_query, a_status

SOURCES: Final = ("KafkaV2[Subscribe[orders]]", "FileStreamSource[file:/in]")

_SCALES: Final = {
    Metric.INPUT_RATE: 40.0,
    Metric.PROCESSING_SHARE: 1.0,
    Metric.BATCH_SECONDS: 12.0,
    Metric.BATCH_SHARE: 1.5,
    Metric.CACHE_MISS_SHARE: 0.5,
    Metric.LOSS_SHARE: 0.5,
    Metric.DROPPED_ROWS: 2.0,
    Metric.COMMIT_AGE_SECONDS: 40.0,
    Metric.BACKLOG_SECONDS: 20.0,
}


def eighths(random: Random, most: float) -> float:
    return random.randint(1, max(1, int(8 * most))) / 8


def a_rule(random: Random, number: int) -> HealthRule:
    metric = random.choice(list(Metric))
    scale = _SCALES.get(metric, 50.0)
    above = metric is Metric.COMMIT_AGE_SECONDS or random.random() < 0.6
    bound = scale * random.uniform(0.3, 1.7)
    apart = scale * random.choice([0.0, 0.0, 0.2])
    mean = random.choice([0, 0, 30, 60, 120])
    if metric is Metric.INPUT_RATE:
        mean = mean or 45
    per_source = metric in {Metric.BACKLOG_RECORDS, Metric.BACKLOG_BYTES, Metric.BACKLOG_FILES}
    return HealthRule(
        name=f"rule-{number}",
        metric=metric,
        bound=bound,
        comparison=Comparison.ABOVE if above else Comparison.BELOW,
        clear_bound=bound - apart if above else bound + apart,
        sustained_for=timedelta(seconds=random.choice([0, 0, 10, 45, 120])),
        clear_for=timedelta(seconds=random.choice([0, 15, 60])),
        mean_over=timedelta(seconds=0 if metric is Metric.COMMIT_AGE_SECONDS else mean),
        severity=random.choice(list(Severity)),
        column="quality.bad" if metric is Metric.OBSERVED else None,
        source=random.choice([None, "Kafka", "Nowhere"]) if per_source else None,
        query=random.choice([None, None, "revenue", "nobody"]),
    )


class History:
    """Rows of one query as they come, and statuses at any time between."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.rows: list[BatchProgress] = []
        self._clock = BEGUN.timestamp() + eighths(random, 5)
        self._batch = random.randint(0, 100)
        self._interval = random.choice([None, None, 5.0, 20.0])
        self._level = random.choice([3, 30, 60])
        self._reports = random.random() < 0.8
        self._monotonic = random.random() < 0.7
        self._really_ended: float | None = None
        self._drift = 0.0

    def batch(self) -> None:
        """Run the next batch, after whatever comes between."""
        random = self._random
        self._between()
        if random.random() < 0.1:
            self._level = random.choice([3, 30, 60])
        if random.random() < 0.05:
            self._reports = not self._reports
        duration = eighths(random, random.choice([1, 6, 20, 90]))
        self._batch += 2 if random.random() < 0.03 else 1
        self.rows.append(self._row(duration))
        self._clock += duration
        self._really_ended = self._clock - self._drift

    def _between(self) -> None:
        random, choice = self._random, self._random.random()
        if choice < 0.15:
            self._clock += eighths(random, random.choice([20, 40, 200]))
        elif choice < 0.17:
            moved = random.choice([-3600.0, 3600.0])
            self._clock += moved
            self._drift += moved
        elif self._interval is not None:
            self._clock += eighths(random, self._interval)

    def _row(self, duration: float) -> BatchProgress:
        random = self._random
        rows = random.choice([0, 0, 10, 400, 3_000])
        fast = random.random() < 0.8
        some = self._reports and random.random() < 0.9
        return BatchProgress(
            query="revenue",
            batch_id=self._batch,
            at=datetime.fromtimestamp(self._clock, UTC).isoformat(),
            input_rows=rows,
            input_rows_per_second=random.choice([None, 0.0, rows / 4]) if fast else rows / 64,
            processed_rows_per_second=random.choice([None, rows / duration]),
            duration_ms=int(duration * 1000),
            watermark_delay_s=self._figure(some),
            state_rows=int(self._figure(True) or 0) if some else None,
            state_bytes=int(self._figure(True) or 0) if some else None,
            dropped_rows=random.choice([0, 0, 0, 4]) if some else None,
            state_commit_ms=1000 * (self._figure(True) or 0) if some else None,
            cache_miss_share=random.random() if some else None,
            observed={"quality.bad": self._figure(True) or 0.0} if some else {},
            sources=self._sources(),
        )

    def _figure(self, told: bool) -> float | None:
        return self._level * self._random.uniform(0.3, 1.7) if told else None

    def _sources(self) -> tuple[SourceProgress, ...]:
        random = self._random
        if random.random() < 0.03:
            return ()
        return tuple(
            SourceProgress(
                source=name,
                backlog_records=self._figure(self._reports and random.random() < 0.9),
                backlog_bytes=self._figure(self._reports),
                backlog_files=random.choice([None, 0.0, 60.0]),
                loss_in_s=self._figure(self._reports),
                kept_for_s=100.0,
            )
            for name in random.sample(SOURCES, k=random.randint(1, 2))
        )

    def status(self) -> Status:
        """Return a status some time after the latest batch."""
        random = self._random
        later = eighths(random, random.choice([1, 10, 60, 400]))
        works = random.random() < 0.4
        latest = self.rows[-1] if self.rows else None
        if latest is not None and random.random() < 0.1:
            latest = latest.__class__(**_fields(latest) | {"batch_id": latest.batch_id + 1})
        ago = later if self._really_ended is not None and self._monotonic else None
        query = a_query(
            active=random.random() < 0.97,
            processing=works,
            data_available=random.random() < 0.5,
            processing_interval_s=self._interval,
            batch_for_s=eighths(random, later) if works and random.random() < 0.8 else None,
            committed_ago_s=ago,
            ready_for_s=random.choice([None, None, eighths(random, 90)]),
            progress=latest,
        )
        at = self._clock + later + random.choice([0.0] * 8 + [3600.0, -3600.0])
        moment = datetime.fromtimestamp(at, UTC)
        return a_status(started_at=BEGUN, at=moment, queries=self._queries(query))

    def _queries(self, query: QueryStatus) -> tuple[QueryStatus, ...]:
        if self._random.random() < 0.03:
            return ()
        other = a_query(name="other", progress=None, processing=False, data_available=False)
        return (query, other) if self._random.random() < 0.2 else (query,)


def _fields(row: BatchProgress) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def a_random_query(random: Random) -> QueryStatus:
    """Return a query in any state, for the judges."""
    times = (None, 0.0, 20.0, 299.0, 300.0, 301.0, 900.0, 5_000.0)
    return a_query(
        active=random.random() < 0.85,
        error=random.choice([None, None, "it broke"]),
        processing=random.random() < 0.6,
        data_available=random.random() < 0.6,
        message=random.choice(["Waiting for next trigger", "Initializing sources", ""]),
        processing_interval_s=random.choice([None, 10.0, 200.0]),
        recent_durations_ms=tuple(
            random.choice([500, 5_000, 40_000, 400_000]) for _ in range(random.randint(0, 20))
        ),
        planned_batch=random.choice([None, 42]),
        batch_for_s=random.choice(times),
        quiet_for_s=random.choice(times),
        committed_ago_s=random.choice(times),
        ready_for_s=random.choice(times),
    )


def a_random_status(random: Random) -> Status:
    """Return a status in any state, for the judges."""
    return a_status(
        state=random.choice([*DriverState, DriverState.RUNNING, DriverState.RUNNING]),
        first_progress_at=random.choice([None, BEGUN, BEGUN]),
        queries=tuple(a_random_query(random) for _ in range(random.randint(0, 3))),
    )
