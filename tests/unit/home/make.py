"""Records for tests, whole and plausible; arguments change what a test is about."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import (
    Epoch,
    Exit,
    Host,
    Launch,
    LaunchCause,
    Outcome,
    StopRequest,
    TerminationProof,
)
from airflow_streaming.model.records.restart_decision import RestartAction, RestartDecision
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage, UpgradeTransition
from airflow_streaming.model.status import CheckpointOrigin, DriverState, QueryStatus, Status

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SCRIPT = b"print('a stream')\n"
HOST = Host(name="node-1", machine="m", boot="b", pid_space="4026531836")


def make_deployment(number: int = 1, source: bytes = SCRIPT, **changes: Any) -> Deployment:
    values: dict[str, Any] = {
        "number": number,
        "stream": "orders",
        "application": "/dags/jobs/orders.py",
        "application_sha256": hashlib.sha256(source).hexdigest(),
        "application_args": ("--output", "{output}"),
        "conf": {"spark.sql.shuffle.partitions": "2"},
        "env": (),
        "py_files": (),
        "jars": (),
        "packages": (),
        "files": (),
        "runtime": "spark-4.3",
        "spark_version": "4.3.0",
        "checkpoint": "/home/orders/checkpoints/000001",
        "output": "/home/orders/output/000001",
        "fair_pools": False,
        "created_at": NOON,
        "created_by": "dag run manual__1",
    }
    return Deployment(**values | changes)


def make_epoch(number: int = 1, **changes: Any) -> Epoch:
    values: dict[str, Any] = {
        "number": number,
        "stream": "orders",
        "deployment": 1,
        "token": f"token-{number}",
        "host": HOST,
        "launcher": "local",
        "cause": LaunchCause.FIRST,
        "reason": "First start of the stream.",
        "by": "dag run manual__1",
        "created_at": NOON,
    }
    return Epoch(**values | changes)


def make_launch(epoch: int = 1, **changes: Any) -> Launch:
    values: dict[str, Any] = {
        "epoch": epoch,
        "token": f"token-{epoch}",
        "host": HOST,
        "handle": {"pid": "4711", "started": "1772366400.5"},
        "driver": "pid 4711",
        "log": f"/var/log/streams/orders/{epoch:06d}.log",
        "launched_at": NOON,
    }
    return Launch(**values | changes)


def make_progress(batch_id: int = 41, **changes: Any) -> BatchProgress:
    values: dict[str, Any] = {
        "query": "revenue",
        "batch_id": batch_id,
        "at": "2026-03-01T12:00:00.000Z",
        "input_rows": 1200,
        "input_rows_per_second": 400.0,
        "processed_rows_per_second": 1234.5,
        "duration_ms": 972,
        "watermark": "2026-03-01T11:50:00.000Z",
        "state_rows": 24,
    }
    return BatchProgress(**values | changes)


def make_query(name: str = "revenue", **changes: Any) -> QueryStatus:
    values: dict[str, Any] = {
        "name": name,
        "id": "7f1f1f7e-0000-4000-8000-000000000001",
        "run_id": "7f1f1f7e-0000-4000-8000-000000000002",
        "checkpoint": f"/home/orders/checkpoints/000001/{name}",
        "checkpoint_origin": CheckpointOrigin.DEPLOYMENT,
        "active": True,
        "processing": True,
        "data_available": True,
        "batches": 42,
        "progress": make_progress(query=name),
    }
    return QueryStatus(**values | changes)


def make_status(epoch: int = 1, **changes: Any) -> Status:
    values: dict[str, Any] = {
        "stream": "orders",
        "epoch": epoch,
        "token": f"token-{epoch}",
        "beat": 7,
        "state": DriverState.RUNNING,
        "host": HOST,
        "pid": 4711,
        "started_at": NOON,
        "at": NOON,
        "spark_version": "4.3.0",
        "ui_url": "http://node-1:4040",
        "first_progress_at": NOON,
        "queries": (make_query(),),
    }
    return Status(**values | changes)


def make_exit(epoch: int = 1, **changes: Any) -> Exit:
    values: dict[str, Any] = {
        "epoch": epoch,
        "outcome": Outcome.FAILED,
        "reason": "Query 'revenue' failed in batch 41.",
        "ended_at": NOON,
        "condition": "STREAM_FAILED",
        "query": "revenue",
        "batch_id": 41,
    }
    return Exit(**values | changes)


def make_stop(epoch: int = 1, **changes: Any) -> StopRequest:
    values: dict[str, Any] = {
        "epoch": epoch,
        "by": "ada",
        "reason": "maintenance",
        "grace_seconds": 60.0,
        "requested_at": NOON,
    }
    return StopRequest(**values | changes)


def make_death(epoch: int = 1, **changes: Any) -> TerminationProof:
    values: dict[str, Any] = {
        "epoch": epoch,
        "evidence": "no process has the token",
        "by": "dag run manual__1",
        "override": False,
        "declared_at": NOON,
    }
    return TerminationProof(**values | changes)


def make_decision(epoch: int = 1, **changes: Any) -> RestartDecision:
    values: dict[str, Any] = {
        "epoch": epoch,
        "action": RestartAction.RESTART,
        "decided_at": NOON,
        "next_attempt_at": NOON,
        "consecutive_failures": 1,
        "reason": "Query 'revenue' failed in batch 41.",
    }
    return RestartDecision(**values | changes)


def an_upgrade_step(
    history: Sequence[UpgradeTransition], stage: Stage, **changes: Any
) -> UpgradeTransition:
    """Return a step that leads an upgrade to a stage, by the first event that does."""
    at = UPGRADE.state_of(history)
    event = next(
        on for (before, on), after in UPGRADE.rows.items() if (before, after) == (at, stage)
    )
    told = {"change": 1, "reason": "So it is.", "at": NOON, "by": "kim", **changes}
    return UpgradeTransition.next_of(history, UPGRADE, event, **told)


def upgrade_steps(*stages: Stage, **changes: Any) -> list[UpgradeTransition]:
    """Return the history of an upgrade that has come from stage to stage."""
    history: list[UpgradeTransition] = []
    for stage in stages:
        history.append(an_upgrade_step(history, stage, **changes))
    return history
