"""Fakes of the driver's ports to Spark, and values that tests need."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow_streaming.driver.monitoring.activity import TriggerRun
from airflow_streaming.driver.monitoring.broker_reach import BrokerReach
from airflow_streaming.driver.monitoring.queries import TrackedQuery
from airflow_streaming.driver.monitoring.spark_query import QueryError
from airflow_streaming.driver.sources.file_backlog import Waiting
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.model.names import Layout
from airflow_streaming.model.products.retention import Outlook
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, Host, LaunchCause
from airflow_streaming.model.status import CheckpointOrigin
from airflow_streaming.model.storage import LocalStore

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
LAYOUT = Layout("orders")
BAD_ROW = QueryError(message="ValueError: a bad row", exception_class="ValueError")


class FakeQuery:
    """A Spark query that does what the test says."""

    def __init__(self) -> None:
        self.active = True
        self.processing = False
        self.reports: list[Mapping[str, Any]] = []
        self.failure: QueryError | None = None
        self.stopped = 0
        self.stops_when_asked = True
        self.interval: float | None = None
        self.epochs_every: float | None = None
        self.waiting: Mapping[str, Waiting] = {}
        self.outlook: Mapping[str, Outlook] = {}
        self.asked: list[Mapping[str, Any]] = []
        self.commits_every: float | None = None

    def commit(self, *batches: int, rows: int = 5) -> None:
        """Add the reports of batches."""
        self.reports += [report(batch, rows=rows) for batch in batches]

    def fail(self, error: QueryError = BAD_ROW) -> None:
        self.active, self.failure = False, error

    def is_active(self) -> bool:
        return self.active

    def status(self) -> Mapping[str, Any]:
        return {
            "message": "Processing new data",
            "isDataAvailable": True,
            "isTriggerActive": self.processing,
        }

    def last_batch(self) -> int | None:
        return self.reports[-1]["batchId"] if self.reports else None

    def progress(self, latest: int | None) -> list[Mapping[str, Any]]:
        return self.reports if latest is None else self.reports[-latest:]

    def error(self) -> QueryError | None:
        return self.failure

    def trigger_interval(self) -> float | None:
        return self.interval

    def epoch_interval(self) -> float | None:
        return self.epochs_every

    def checkpoint_interval(self) -> float | None:
        return self.commits_every

    def trigger_run(self) -> TriggerRun:
        return TriggerRun(batch=len(self.reports), started=len(self.reports))

    def files_waiting(self, ends: Mapping[str, Any]) -> Mapping[str, Waiting]:
        return self.waiting

    def outlooks(self, ends: Mapping[str, Any]) -> Mapping[str, Outlook]:
        self.asked.append(ends)
        return self.outlook

    def kept_for(self) -> tuple[tuple[str, float], ...]:
        return ()

    def stop(self) -> None:
        self.stopped += 1
        if self.stops_when_asked:
            self.active = False


def report(batch: int, *, rows: int = 5, ran: bool = True) -> Mapping[str, Any]:
    """Return a progress as Spark's JSON gives it."""
    durations = {"triggerExecution": 120, **({"addBatch": 80} if ran else {})}
    return {
        "batchId": batch,
        "timestamp": "2026-01-05T12:00:00.000Z",
        "numInputRows": rows,
        "durationMs": durations,
    }


class CheckpointFolder(LocalStore):
    """A checkpoint on this machine."""

    @property
    def location(self) -> str:
        return f"file:{self.uri.removeprefix('file://')}"

    def move(self, folder: str, target: str) -> bool:
        root = Path(self.uri.removeprefix("file://"))
        if not (root / folder).is_dir() or not any((root / folder).iterdir()):
            return False
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        (root / folder).rename(root / target)
        return True


class AbsentStore(LocalStore):
    """A home that cannot be reached, until it is."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.present = False
        self.calls = 0

    def read(self, path: str) -> bytes | None:
        self._reach()
        return super().read(path)

    def names(self, folder: str) -> list[str]:
        self._reach()
        return super().names(folder)

    def create(self, path: str, data: bytes) -> None:
        self._reach()
        super().create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self._reach()
        super().replace(path, data)

    def _reach(self) -> None:
        self.calls += 1
        if not self.present:
            raise HomeUnavailable("The home is away.")


def make_tracked(
    query: FakeQuery,
    *,
    name: str = "q",
    gated: bool = False,
    folder: Path = Path("/nowhere"),
    reach: BrokerReach | None = None,
) -> TrackedQuery:
    return TrackedQuery(
        query,
        name=name,
        id=f"id-{name}",
        run_id=f"run-{name}-{id(query)}",
        checkpoint=f"file:{folder}",
        files=LocalStore(str(folder)),
        origin=CheckpointOrigin.DEPLOYMENT,
        gated=gated,
        reach=reach,
    )


def make_epoch(number: int = 1, **changes: Any) -> Epoch:
    epoch = Epoch(
        number=number,
        stream="orders",
        deployment=1,
        token="token",
        host=Host(name="here"),
        launcher="test",
        cause=LaunchCause.FIRST,
        reason="A test begins.",
        by="a test",
        created_at=NOON,
    )
    return replace(epoch, **changes)


def make_deployment(source: bytes = b"", **changes: Any) -> Deployment:
    deployment = Deployment(
        number=1,
        stream="orders",
        application="/dags/jobs/orders.py",
        application_sha256=hashlib.sha256(source).hexdigest(),
        application_args=("--to", "{output}"),
        conf={},
        env=(),
        py_files=(),
        jars=(),
        packages=(),
        files=(),
        runtime="spark-4.3",
        spark_version="4.3.0",
        checkpoint="/home/orders/checkpoints/000001",
        output="/home/orders/output/000001",
        fair_pools=False,
        created_at=NOON,
        created_by="a test",
    )
    return replace(deployment, **changes)
