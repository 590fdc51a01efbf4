"""Events and sinks for the tests of this folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_streaming.driver.sinks.port import Origin, ProgressEvent
from airflow_streaming.model.progress import BatchProgress, SourceProgress

ORIGIN = Origin(stream="orders", epoch=7, deployment=3)


def an_event(batch: int = 0, *, query: str = "q", **figures: Any) -> ProgressEvent:
    """Return the event of a batch with every figure that is not given left as Spark's absence."""
    progress = BatchProgress(
        query=query,
        batch_id=batch,
        **{
            "at": "2026-01-05T12:00:00.500Z",
            "input_rows": 5,
            "input_rows_per_second": 2.5,
            "processed_rows_per_second": 40.0,
            "duration_ms": 125,
            **figures,
        },
    )
    return ProgressEvent(
        origin=ORIGIN,
        query=query,
        query_id=f"id-{query}",
        run_id=f"run-{query}",
        sequence=batch + 1,
        progress=progress,
        report={"batchId": batch, "name": query, "note": "grün"},
    )


FULL = {
    "watermark_delay_s": 12.5,
    "state_rows": 1_000,
    "state_bytes": 65_536,
    "dropped_rows": 3,
    "output_rows": 4,
    "state_commit_ms": 40.0,
    "cache_miss_share": 0.25,
    "observed": {"quality.bad": 2.0},
    "phases_ms": {"addBatch": 80.0},
    "state_metrics": {"rocksdbGetCount": 25.0},
    "executors": 2,
    "figures": {
        "missing_executors": 1.0,
        "lost_executors": 3.0,
        "failed_tasks": 6.0,
        "snapshot_lag": 12.0,
        "repaired_snapshots": 2.0,
    },
    "sources": (
        SourceProgress(
            source="KafkaV2[Subscribe[a]]",
            input_rows=4,
            backlog_records=70.0,
            loss_in_s=30.0,
            kept_for_s=120.0,
        ),
        SourceProgress(
            source="FileStreamSource[x]", input_rows=1, backlog_bytes=9.0, backlog_files=2.0
        ),
    ),
}
"""Every figure that Spark gives for some queries only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What the driver hands on."""

    progress: BatchProgress
    report: dict[str, Any]


def a_batch(batch: int, query: str = "q") -> Batch:
    return Batch(
        progress=an_event(batch, query=query).progress,
        report={"id": f"id-{query}", "runId": f"run-{query}", "batchId": batch},
    )


class RecordingSink:
    """
    A sink that keeps what it gets.

    :param act: Called with the events before they are kept; it may raise or wait.
    """

    name = "recording"

    def __init__(self, act: Callable[[Sequence[ProgressEvent]], object] = lambda _: None) -> None:
        self.url: str | None = None
        self.taken: list[ProgressEvent] = []
        self.closed = threading.Event()
        self._act = act

    def send(self, events: Sequence[ProgressEvent]) -> None:
        self._act(events)
        self.taken += events

    def close(self) -> None:
        self.closed.set()

    @property
    def batches(self) -> list[int]:
        return [event.batch_id for event in self.taken]
