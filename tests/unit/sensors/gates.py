"""A stream whose driver the test plays, for tests of whatever waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_streaming.model.progress import BatchProgress, SourceProgress
from tests.unit.world import World

BEGUN = datetime(2026, 11, 21, 12, tzinfo=UTC)


def a_batch(number: int, *, watermark: datetime | None = None, **figures: Any) -> BatchProgress:
    """Return a batch that began ``number`` minutes after noon and took two seconds."""
    return BatchProgress(
        query="revenue",
        batch_id=number,
        at=(BEGUN + timedelta(minutes=number)).isoformat(),
        input_rows=10,
        input_rows_per_second=10.0,
        processed_rows_per_second=10.0,
        duration_ms=2000,
        watermark=watermark.isoformat() if watermark else None,
        sources=(SourceProgress(source="test", end_offset=str(number), **figures),),
    )


def commit(world: World, batch: BatchProgress, *, beat: int = 1) -> None:
    """Let the driver tell of a batch."""
    query = world.query(progress=batch)
    world.say(beat=beat, progressed_for=timedelta(minutes=2), queries=(query,))


@contextmanager
def beating(world: World, batch: BatchProgress) -> Iterator[None]:
    """Let the driver's heartbeat rise every few milliseconds, healthy for two minutes."""
    done = threading.Event()

    def beat() -> None:
        number = 1
        while not done.wait(0.01):
            number += 1
            commit(world, batch, beat=number)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
