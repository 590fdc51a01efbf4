"""A day of plausible batches of one query: load over the day, backlog, state and what RocksDB does."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_streaming.model.progress import BatchProgress, SourceProgress


@dataclass
class Batches:
    """
    The batches of a stream of a kind.

    :param batch: Seconds between two.
    :param base: Rows a second that come on average.
    """

    kind: str
    now: datetime
    seed: random.Random
    batch: float
    base: float

    def between(self, start: datetime, end: datetime) -> Iterator[BatchProgress]:
        count = int((end - start).total_seconds() / self.batch)
        backlog, state = 0.0, 120_000.0
        for index in range(max(0, count)):
            at = start + timedelta(seconds=index * self.batch)
            left = (self.now - at).total_seconds() / 3600
            day = 1 + 0.45 * math.sin((at.hour * 60 + at.minute) / 1440 * 2 * math.pi - 1.6)
            rate = self.base * day * self.seed.uniform(0.93, 1.07)
            capacity = self.base * 2.4
            if self.kind == "behind" and left < 2.2:
                rate *= 1 + (2.2 - left) * 1.1
                capacity = self.base * 1.05
            if self.kind == "idle" and left < 6:
                continue
            if self.kind in ("restarted", "gave_up", "restarting") and 0.8 < left < 0.95:
                rate *= 1.7
            backlog = max(0.0, backlog + (rate - capacity) * self.batch)
            arriving = min(rate, capacity) if backlog else rate
            rows = int(arriving * self.batch)
            stall = 9.0 if self.seed.random() < 0.0025 else 1.0
            took = (420 + 1000 * arriving / capacity * 4.2) * self.seed.uniform(0.85, 1.2) * stall
            state = state * 0.9995 + rows * 0.02
            delay = 30 + took / 1000 + backlog / max(1.0, capacity)
            yield self._row(index, at, rows, rate, took, state, delay, backlog)

    def _row(
        self,
        index: int,
        at: datetime,
        rows: int,
        rate: float,
        took: float,
        state: float,
        delay: float,
        backlog: float,
    ) -> BatchProgress:
        uniform = self.seed.uniform
        add = took * uniform(0.7, 0.78)
        phases = {
            "addBatch": add,
            "queryPlanning": took * 0.06,
            "latestOffset": took * 0.05,
            "getBatch": 3.0,
            "walCommit": took * 0.045,
            "commitOffsets": took * 0.04,
            "triggerExecution": took,
        }
        metrics = {
            "rocksdbGetCount": rows * 1.2,
            "rocksdbGetLatency": rows * 0.004 * uniform(0.8, 1.3),
            "rocksdbPutCount": rows * 0.9,
            "rocksdbPutLatency": rows * 0.006 * uniform(0.8, 1.3),
            "rocksdbTotalBytesRead": rows * 190.0,
            "rocksdbTotalBytesWritten": rows * 240.0,
            "rocksdbCommitFlushLatency": 40 * uniform(0.5, 2),
            "rocksdbCommitCompactLatency": 0.0 if index % 60 else 900 * uniform(0.5, 2),
            "rocksdbCommitCheckpointLatency": 12 * uniform(0.5, 2),
            "rocksdbCommitFileSyncLatencyMs": 160 * uniform(0.5, 2),
            "rocksdbFilesCopied": float(self.seed.randint(1, 9)),
            "rocksdbFilesReused": float(self.seed.randint(40, 60)),
            "rocksdbWriterStallLatencyMs": 0.0,
            "rocksdbReadBlockCacheHitCount": rows * 1.1,
            "rocksdbReadBlockCacheMissCount": rows * 0.04,
        }
        return BatchProgress(
            query="revenue",
            batch_id=index,
            at=at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            input_rows=rows,
            input_rows_per_second=rate,
            processed_rows_per_second=rows / (took / 1000),
            duration_ms=int(took),
            watermark=(at - timedelta(seconds=delay)).isoformat(timespec="milliseconds"),
            watermark_delay_s=delay,
            state_rows=int(state),
            state_bytes=int(state * 410),
            dropped_rows=0 if self.seed.random() > 0.01 else self.seed.randint(1, 12),
            state_commit_ms=took * 0.05,
            cache_miss_share=0.035 * uniform(0.8, 1.4),
            observed={
                "quality.bad_rows": float(self.seed.randint(0, 5)),
                "quality.rows": float(rows),
            },
            sources=(
                SourceProgress(
                    source="KafkaV2[Subscribe[orders.v2]]",
                    input_rows=rows,
                    backlog_records=backlog,
                    end_offset='{"orders.v2":{"0":88123411,"1":88120007}}',
                ),
            ),
            phases_ms=phases,
            state_metrics=metrics,
            executors=4,
        )
