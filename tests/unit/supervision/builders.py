"""
Values for the tests of the core: a stream that runs well, to be changed where a test needs it.

Every function takes the fields that differ, so that a test shows only what it is about.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Observation, Process, ProcessState
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.alert import Alert, AlertKind
from airflow_streaming.model.records.control import Circuit, CircuitState, DesiredState
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
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.status import CheckpointOrigin, DriverState, QueryStatus, Status
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.decide import ReconcileInput

NOW: Final = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
BEGUN: Final = NOW - timedelta(hours=1)
EPOCH: Final = 17
HOST: Final = Host(
    name="worker-1", machine="m-1", boot="b-1", pid_space="pid:[4026531836]", cards=("c-1",)
)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def a_spec(**changes: Any) -> StreamSpec:
    fields: dict[str, Any] = {
        "name": "orders",
        "application": "jobs/orders.py",
        "home": "/data/streams",
        "runtime": "spark-4.3",
    }
    return StreamSpec(**fields | changes)


def a_deployment(**changes: Any) -> Deployment:
    fields: dict[str, Any] = {
        "number": 3,
        "stream": "orders",
        "application": "/dags/jobs/orders.py",
        "application_sha256": "ab" * 32,
        "application_args": ("--output", "{output}"),
        "conf": {"spark.master": "local[2]"},
        "env": ("TZ",),
        "py_files": ("/dags/jobs/lib.py",),
        "jars": ("/jars/a.jar",),
        "packages": ("org.example:a:1.0",),
        "files": ("/dags/jobs/table.csv",),
        "runtime": "spark-4.3",
        "spark_version": "4.3.0",
        "checkpoint": "/data/streams/orders/checkpoints/000003",
        "output": "/data/streams/orders/output/000003",
        "fair_pools": False,
        "created_at": BEGUN,
        "created_by": "orders.orders run r1 try 1",
    }
    return Deployment(**fields | changes)


def an_epoch(**changes: Any) -> Epoch:
    fields: dict[str, Any] = {
        "number": EPOCH,
        "stream": "orders",
        "deployment": 3,
        "token": "t-17",
        "host": HOST,
        "launcher": "local",
        "cause": LaunchCause.FIRST,
        "reason": "First start of the stream.",
        "by": "orders.orders run r1 try 1",
        "created_at": BEGUN,
    }
    return Epoch(**fields | changes)


def a_launch(**changes: Any) -> Launch:
    fields: dict[str, Any] = {
        "epoch": EPOCH,
        "token": "t-17",
        "host": HOST,
        "handle": {"pid": "4711", "started": "1795262400.25"},
        "driver": "pid 4711",
        "log": "/logs/orders/000017.log",
        "launched_at": BEGUN,
    }
    return Launch(**fields | changes)


def a_batch(**changes: Any) -> BatchProgress:
    fields: dict[str, Any] = {
        "query": "revenue",
        "batch_id": 41,
        "at": "2026-11-21T11:59:58.000Z",
        "input_rows": 2_000,
        "input_rows_per_second": 100.5,
        "processed_rows_per_second": 990.0,
        "duration_ms": 2_020,
    }
    return BatchProgress(**fields | changes)


def a_query(**changes: Any) -> QueryStatus:
    fields: dict[str, Any] = {
        "name": "revenue",
        "id": "5c0f0f6e-0000-4000-8000-000000000001",
        "run_id": "5c0f0f6e-0000-4000-8000-000000000002",
        "checkpoint": "/data/streams/orders/checkpoints/000003/revenue",
        "checkpoint_origin": CheckpointOrigin.DEPLOYMENT,
        "active": True,
        "processing": True,
        "data_available": True,
        "batches": 40,
        "progress": a_batch(),
    }
    return QueryStatus(**fields | changes)


def a_status(**changes: Any) -> Status:
    fields: dict[str, Any] = {
        "stream": "orders",
        "epoch": EPOCH,
        "token": "t-17",
        "beat": 600,
        "state": DriverState.RUNNING,
        "host": HOST,
        "pid": 4712,
        "started_at": BEGUN,
        "at": NOW,
        "spark_version": "4.3.0",
        "first_progress_at": BEGUN + minutes(10),
        "queries": (a_query(),),
    }
    return Status(**fields | changes)


def an_exit(outcome: Outcome = Outcome.FAILED, **changes: Any) -> Exit:
    fields: dict[str, Any] = {
        "epoch": EPOCH,
        "reason": "the sink is full.",
        "ended_at": NOW,
    }
    return Exit(outcome=outcome, **fields | changes)


def a_stop(**changes: Any) -> StopRequest:
    fields: dict[str, Any] = {
        "epoch": EPOCH,
        "by": "kim",
        "reason": "Maintenance.",
        "grace_seconds": 60.0,
        "requested_at": NOW,
    }
    return StopRequest(**fields | changes)


def a_death(**changes: Any) -> TerminationProof:
    fields: dict[str, Any] = {
        "epoch": EPOCH,
        "evidence": "the host was scrapped.",
        "by": "kim",
        "override": True,
        "declared_at": NOW,
    }
    return TerminationProof(**fields | changes)


def a_circuit(state: CircuitState = CircuitState.OPEN, **changes: Any) -> Circuit:
    fields: dict[str, Any] = {
        "number": 2,
        "epoch": EPOCH,
        "by": "kim",
        "reason": "The disk was full.",
        "at": NOW,
    }
    return Circuit(state=state, **fields | changes)


def a_restart(*, due_in: timedelta = timedelta(0), **changes: Any) -> RestartDecision:
    fields: dict[str, Any] = {
        "epoch": EPOCH,
        "decided_at": NOW,
        "next_attempt_at": NOW + due_in,
        "consecutive_failures": 2,
        "reason": "Killed.",
        "failure_kind": FailureKind.KILLED,
    }
    return RestartDecision(action=RestartAction.RESTART, **fields | changes)


def a_give_up(**changes: Any) -> RestartDecision:
    fields: dict[str, Any] = {
        "epoch": EPOCH,
        "decided_at": NOW,
        "next_attempt_at": None,
        "consecutive_failures": 6,
        "reason": "The budget is spent.",
    }
    return RestartDecision(action=RestartAction.GIVE_UP, **fields | changes)


def an_alert(**changes: Any) -> Alert:
    fields: dict[str, Any] = {
        "stream": "orders",
        "alert": AlertKind.UNHEALTHY,
        "key": "falling_behind/revenue",
        "epoch": EPOCH,
        "at": NOW,
        "by": "",
        "reason": "Query 'revenue' falls behind.",
        "rule": "falling_behind",
        "query": "revenue",
    }
    return Alert(**fields | changes)


def a_process(state: ProcessState = ProcessState.RUNNING) -> Process:
    return Process(state=state, detail=f"pid 4711 is {state}")


def observed(process: ProcessState = ProcessState.RUNNING, **changes: Any) -> Observation:
    fields: dict[str, Any] = {
        "epoch": an_epoch(),
        "process": a_process(process),
        "now": NOW,
        "launch": a_launch(),
        "status": a_status(),
    }
    return Observation(**fields | changes)


def a_situation(**changes: Any) -> ReconcileInput:
    fields: dict[str, Any] = {
        "desired": DesiredState.RUNNING,
        "now": NOW,
        "rules": HealthRules(),
        "policy": RestartPolicy(),
        "deployment": a_deployment(),
        "seen": observed(),
    }
    return ReconcileInput(**fields | changes)
