"""Histories of batches whose figures are the test's, and what rules say of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow_streaming.model.health_rules import Finding, HealthRule
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.status import Status
from airflow_streaming.supervision.rules.rulebook import RuleBook
from tests.unit.supervision.builders import BEGUN, a_batch, a_query, a_status, seconds

KAFKA: Final = "KafkaV2[Subscribe[orders]]"
FILES: Final = "FileStreamSource[file:/in]"
BUSY: Final[dict[str, Any]] = {"processing": True, "data_available": True, "batch_for_s": 1.0}
IDLE: Final[dict[str, Any]] = {"processing": False, "data_available": False}


def rule(metric: Metric, bound: float, **changes: Any) -> HealthRule:
    return HealthRule(**{"name": "r", "metric": metric, "bound": bound} | changes)


def rows(count: int, *, every: float = 10.0, start: float = 0.0, **fields: Any) -> list[Any]:
    """Return batches that begin at even times and take half of the time between."""
    return [
        a_batch(
            batch_id=int(start / every) + n,
            at=(BEGUN + seconds(start + every * n)).isoformat(),
            duration_ms=int(500 * every),
            **fields,
        )
        for n in range(count)
    ]


def told(
    rules: HealthRule | Sequence[HealthRule],
    history: Sequence[BatchProgress],
    *,
    at: float,
    **query: Any,
) -> list[Finding]:
    """Return what rules say of a history, so many seconds after the start of the driver."""
    book = RuleBook([rules] if isinstance(rules, HealthRule) else rules)
    for row in history:
        book.learn(row)
    return list(book.findings(status(at, history, **query)))


def status(at: float, history: Sequence[BatchProgress] = (), **query: Any) -> Status:
    latest = history[-1] if history else None
    fields: dict[str, Any] = BUSY | {"progress": latest, **query}
    return a_status(started_at=BEGUN, at=BEGUN + seconds(at), queries=(a_query(**fields),))


def one(*args: Any, **kwargs: Any) -> Finding:
    (finding,) = told(*args, **kwargs)
    return finding


LATE: Final = rule(
    Metric.WATERMARK_DELAY_SECONDS,
    60,
    sustained_for=seconds(30),
    clear_bound=50,
    clear_for=seconds(20),
)


def delays(*figures: float) -> list[BatchProgress]:
    return [rows(1, start=10 * n, watermark_delay_s=f)[0] for n, f in enumerate(figures)]
