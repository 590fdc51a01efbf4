"""
A small world for tests of operators, triggers and sensors.

The home is real (a folder), the spec, the records and the decisions are real; only processes are
the fake launcher's, and the test plays the driver by writing the records a driver writes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.home.home import StreamHome, init_home, open_home
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import Epoch, Exit, Outcome, StopRequest
from airflow_streaming.model.status import CheckpointOrigin, DriverState, QueryStatus, Status
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import StreamSpec
from tests.fakes import FAKE_HOST, FakeLauncher, make_spark_home

SCRIPT = "spark = None  # a script that would start queries\n"


def make_world(folder: Path, patch: pytest.MonkeyPatch) -> World:
    """Return one stream with a real home, a fake launcher and a runtime that is only laid out."""
    made = World(folder)
    java = folder / "java"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").write_text("#!/bin/sh\nexit 0\n")
    (java / "bin" / "java").chmod(0o755)
    (java / "release").write_text('JAVA_VERSION="17.0.15"\n')
    runtime = {"path": str(make_spark_home(folder / "spark")), "java_home": str(java)}
    patch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps({"spark-4.3": runtime}))
    patch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(folder / "drivers"))
    patch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"})
    )
    patch.setattr("airflow_streaming.launch.local.LocalLauncher", lambda **_: made.launcher)
    return made


@dataclass
class TaskInstance:
    """As much of a task instance as operators touch."""

    dag_id: str = "orders"
    task_id: str = "orders"
    run_id: str = "run-1"
    try_number: int = 1
    map_index: int = -1
    xcoms: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value


class World:
    """One stream, its home, and the operator that keeps it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = str(folder / "home")
        init_home(self.uri)
        self.script = folder / "orders.py"
        self.script.write_text(SCRIPT)
        self.launcher = FakeLauncher()
        self.ti = TaskInstance()
        self.lane = "orders"
        """The lane whose records are read and whose driver is played."""
        self.run_started_at: datetime | None = None
        """When the DAG run of every task began; ``None``: each task is of a run that has just begun."""

    @property
    def home(self) -> StreamHome:
        return open_home(self.uri).stream(self.lane)

    def spec(self, **changes: Any) -> StreamSpec:
        asked: dict[str, Any] = {
            "name": "orders",
            "application": str(self.script),
            "home": self.uri,
            "runtime": "spark-4.3",
        }
        return StreamSpec(**{**asked, **changes})

    def operator(
        self, *, rollover_after: timedelta | None = None, dag: DAG | None = None, **spec: Any
    ) -> Any:
        return SparkStreamOperator(
            task_id="orders",
            stream=self.spec(**spec),
            rollover_after=rollover_after,
            dag=dag or DAG("orders", schedule=None),
            changed_by=("orders_upgrade", "orders_blue_green"),
        )

    def context(self, **params: Any) -> Any:
        return {
            "ti": self.ti,
            "params": params,
            "dag_run": SimpleNamespace(start_date=self.run_started_at or datetime.now(UTC)),
        }

    def run(self, operator: Any = None, **params: Any) -> Any:
        """Execute a fresh task until it defers; return the trigger."""
        return self.deferral(lambda: (operator or self.operator()).execute(self.context(**params)))

    def wake(self, trigger: Any, operator: Any = None, **event: Any) -> Any:
        """Resume the task as an event of its trigger would; return the next trigger."""
        payload = {
            "watched": trigger.watched,
            "mark": "" if "watched" in event else getattr(trigger, "mark", ""),
            "memory": None,
            "lane": trigger.keeps,
            **event,
        }
        return self.deferral(
            lambda: (operator or self.operator()).execute_complete(self.context(), payload)
        )

    @staticmethod
    def deferral(act: Any) -> Any:
        try:
            act()
        except TaskDeferred as deferred:
            path, kwargs = deferred.trigger.serialize()
            assert path.startswith("airflow_streaming.triggers.stream.")
            return type(deferred.trigger)(**kwargs)
        raise AssertionError("The task ended instead of deferring.")

    def epoch(self) -> Epoch:
        epoch = self.home.newest_epoch()
        assert epoch is not None
        return epoch

    def epochs(self) -> int:
        epoch = self.home.newest_epoch()
        return epoch.number if epoch else 0

    def crash(self) -> None:
        """Let the driver of the newest epoch be killed without a word."""
        self.launcher.end(self.epoch().token)

    def say(
        self, *, beat: int = 1, progressed_for: timedelta | None = None, **changes: Any
    ) -> None:
        """Write the newest driver's status."""
        epoch, now = self.epoch(), datetime.now(UTC)
        told: dict[str, Any] = {
            "stream": self.lane,
            "epoch": epoch.number,
            "token": epoch.token,
            "beat": beat,
            "state": DriverState.RUNNING,
            "host": FAKE_HOST,
            "pid": 1,
            "started_at": now - timedelta(hours=1),
            "at": now,
            "spark_version": "4.3.0",
            "first_progress_at": None if progressed_for is None else now - progressed_for,
            "queries": (self.query(),),
        }
        self._store().replace(
            Layout(self.lane).epoch(epoch.number, "status.json"),
            Layout(self.lane).bytes_of(Status(**{**told, **changes})),
        )

    @staticmethod
    def query(**changes: Any) -> QueryStatus:
        told: dict[str, Any] = {
            "name": "revenue",
            "id": "id-1",
            "run_id": "run-1",
            "checkpoint": "/c",
            "checkpoint_origin": CheckpointOrigin.DEPLOYMENT,
            "active": True,
            "processing": True,
            "batches": 3,
        }
        return QueryStatus(**{**told, **changes})

    def ask_to_stop(self) -> None:
        """Request a stop of the newest driver."""
        request = StopRequest(
            epoch=self.epoch().number,
            by="test",
            reason="The test asks.",
            grace_seconds=60.0,
            requested_at=datetime.now(UTC),
        )
        self.home.request_stop(request)

    def last_words(self, outcome: Outcome, *, retryable: bool = True) -> None:
        """Let the newest driver write its exit record and go."""
        epoch = self.epoch()
        record = Exit(
            epoch=epoch.number,
            outcome=outcome,
            reason=f"The test says {outcome}.",
            ended_at=datetime.now(UTC),
            retryable=retryable,
        )
        self._store().create(
            Layout(self.lane).epoch(epoch.number, "exit.json"), Layout(self.lane).bytes_of(record)
        )
        self.launcher.end(epoch.token)

    def _store(self) -> Any:
        return open_home(self.uri).store
