"""
What does it cost to hold the recommended rules, and five more, against a stream's progress?

One row a second for every ten streams, and a look every five seconds at each of a thousand, is what
one triggerer process must bear. Printed: microseconds a row and a look, memory a stream, and the
share of a core that makes. Run it as ``python -m benchmarks.rules``.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from datetime import UTC, datetime, timedelta

from airflow_streaming.model.health_rules import HealthRule, recommended_rules
from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.model.records.epoch import Host
from airflow_streaming.model.status import CheckpointOrigin, DriverState, QueryStatus, Status
from airflow_streaming.supervision.rules.rulebook import RuleBook
from benchmarks.figures import machine, table

STREAMS = 1_000
ROWS_A_SECOND = STREAMS / 10
LOOKS_A_SECOND = STREAMS / 5
GOAL_CORES = 0.1
BEGUN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def rules() -> tuple[HealthRule, ...]:
    return recommended_rules(
        watermark_sla=timedelta(minutes=10),
        state_rows_limit=1_000_000,
        state_bytes_limit=2**30,
        backlog_records=1e6,
        backlog_bytes=1e9,
        backlog_files=1_000,
        observed={"quality.bad": 0.1},
    )


def row(number: int) -> BatchProgress:
    return BatchProgress(
        query="orders",
        batch_id=number,
        at=(BEGUN + timedelta(seconds=10 * number)).isoformat(),
        input_rows=5_000,
        input_rows_per_second=500.0,
        processed_rows_per_second=900.0,
        duration_ms=5_500,
        watermark_delay_s=30.0,
        state_rows=90_000,
        state_bytes=50_000_000,
        dropped_rows=0,
        state_commit_ms=120.0,
        cache_miss_share=0.1,
        observed={"quality.bad": 0.01},
        sources=(
            SourceProgress(source="KafkaV2[Subscribe[orders]]", backlog_records=1e4),
            SourceProgress(source="FileStreamSource[file:/in]", backlog_bytes=1e6, backlog_files=3),
        ),
    )


def status(latest: BatchProgress) -> Status:
    query = QueryStatus(
        name="orders",
        id="i",
        run_id="r",
        checkpoint="/c",
        checkpoint_origin=CheckpointOrigin.DEPLOYMENT,
        active=True,
        progress=latest,
        processing_interval_s=10.0,
        committed_ago_s=3.0,
    )
    return Status(
        stream="orders",
        epoch=1,
        token="t",  # noqa: S106
        beat=1,
        state=DriverState.RUNNING,
        host=Host(name="h", machine="m", boot="b", pid_space="p"),
        pid=1,
        started_at=BEGUN,
        at=datetime.fromisoformat(latest.at) + timedelta(seconds=9),
        spark_version="4.3.0",
        queries=(query,),
    )


def measure(rows: int) -> tuple[float, float, float, int]:
    """Return seconds a row, seconds a look, bytes a stream, and the findings of a look."""
    book, progress = RuleBook(rules()), [row(number) for number in range(rows)]
    book.findings(status(progress[0]))
    begun = time.process_time()
    for batch in progress:
        book.learn(batch)
    learned = time.process_time()
    now = status(progress[-1])
    found = [book.findings(now) for _ in range(rows)]
    looked = time.process_time()
    return (learned - begun) / rows, (looked - learned) / rows, _memory(progress), len(found[-1])


def _memory(progress: list[BatchProgress]) -> float:
    tracemalloc.start()
    book = RuleBook(rules())
    book.findings(status(progress[0]))
    for batch in progress:
        book.learn(batch)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return float(used)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    a_row, a_look, memory, findings = measure(parser.parse_args().rows)
    cores = ROWS_A_SECOND * a_row + LOOKS_A_SECOND * a_look
    rows = [
        ["a row", f"{1e6 * a_row:.1f} µs"],
        [f"a look ({findings} findings)", f"{1e6 * a_look:.1f} µs"],
        ["memory of a stream", f"{memory / 1024:.0f} KiB"],
        [f"{STREAMS} streams", f"{cores:.4f} cores"],
    ]
    print(f"{len(rules())} rules; {machine()}\n{table(['what', 'cost'], rows)}")
    return 0 if cores < GOAL_CORES else 1


if __name__ == "__main__":
    raise SystemExit(main())
