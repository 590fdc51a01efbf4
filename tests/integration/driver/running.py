"""Real drivers for tests: a home laid out by hand, the package as a zip, and spark-submit."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import airflow_streaming
from airflow_streaming.launch.package import build_driver_package
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import (
    Epoch,
    Exit,
    Host,
    LaunchCause,
    QueryClaim,
    StopRequest,
    mark_of,
)
from airflow_streaming.model.status import QueryStatus, Status
from airflow_streaming.model.storage import LocalStore
from tests.patience import PATIENCE, until
from tests.quick_java import spark_environment

PACKAGE = Path(airflow_streaming.__file__).parent
STREAM = "orders"
LAYOUT = Layout(STREAM)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)

HEADER = """
import sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
folder = Path(sys.argv[1])

def source(rows=5):
    return (spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", rows).option("numPartitions", 1).load())
"""
"""What most scripts of these tests begin with: a source that gives rows for ever."""


def build_package(folder: Path) -> Path:
    """Zip what a driver needs, as a launch does."""
    return build_driver_package(folder / "package", PACKAGE).archive


class Driver:
    """One running driver."""

    def __init__(
        self, world: World, epoch: int, process: subprocess.Popen[bytes], log: Path
    ) -> None:
        self.world, self.epoch, self.process, self.log_file = world, epoch, process, log

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def status(self) -> Status | None:
        data = self.world.store.read(LAYOUT.epoch(self.epoch, "status.json"))
        return None if data is None else Status.from_bytes(data)

    def query(self, name: str) -> QueryStatus | None:
        status = self.status()
        queries = status.queries if status is not None else ()
        return next((query for query in queries if query.name == name), None)

    def exit(self) -> Exit | None:
        data = self.world.store.read(LAYOUT.epoch(self.epoch, "exit.json"))
        return None if data is None else Exit.from_bytes(data)

    def has_committed(self, batches: int, query: str = "q") -> Driver:
        """Wait until the query has committed so many batches, as its status tells."""

        def committed() -> bool:
            status = self.query(query)
            return status is not None and status.batches >= batches

        self.until(committed, f"Batch {batches} of {query}")
        return self

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for something that the driver does while it runs, and return it."""
        return until(condition, what, seen=lambda: self.log, failing=self._has_ended)

    def _has_ended(self) -> str | None:
        code = self.process.poll()
        return None if code is None else f"The driver has ended with {code}."

    def request_stop(self, *, grace: float = PATIENCE) -> None:
        """Ask it to stop; by default it is given longer than it can ever need."""
        request = StopRequest(
            epoch=self.epoch,
            by="a test",
            reason="It has seen enough.",
            grace_seconds=grace,
            requested_at=datetime.now(UTC),
        )
        path = LAYOUT.epoch(self.epoch, "stop.json")
        self.world.store.create(path, request.to_bytes("orders"))

    def ended(self) -> int:
        """Wait for the end and return the exit code."""
        until(lambda: self.process.poll() is not None, "The driver's end", seen=lambda: self.log)
        return self.process.returncode

    def python_pid(self) -> int:
        """The Python half of the driver; its parent is the JVM."""
        status = self.until(self.status, "A first status")
        return int(status.pid)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class World:
    """A home with one stream, and the drivers started on it."""

    def __init__(self, folder: Path, runtime: Path, package: Path) -> None:
        self.folder, self.runtime, self.package = folder, runtime, package
        self.home = folder / "home"
        self.home.mkdir()
        self.store = LocalStore(str(self.home))
        self.drivers: list[Driver] = []

    def checkpoint(self, query: str = "q", deployment: int = 1) -> Path:
        return self.home / LAYOUT.checkpoint(deployment) / query

    def claim(self, query: str = "q", deployment: int = 1) -> Path:
        return self.home / LAYOUT.place(QueryClaim, deployment=deployment, query=query)

    def deploy(self, script: str, number: int = 1, **changes: Any) -> Deployment:
        return self.deploy_program((HEADER + textwrap.dedent(script)).encode(), number, **changes)

    def deploy_program(self, source: bytes, number: int = 1, **changes: Any) -> Deployment:
        digest = hashlib.sha256(source).hexdigest()
        deployment = Deployment(
            number=number,
            stream=STREAM,
            application=str(self.folder / "application" / "orders.py"),
            application_sha256=digest,
            application_args=(str(self.folder), "{stream}"),
            conf={},
            env=(),
            py_files=(),
            jars=(),
            packages=(),
            files=(),
            runtime="spark-4.3",
            spark_version="4.3.0",
            checkpoint=str(self.home / LAYOUT.checkpoint(number)),
            output=str(self.home / LAYOUT.output(number)),
            fair_pools=False,
            created_at=NOW,
            created_by="a test",
        )
        deployment = replace(deployment, **changes)
        self.store.create(LAYOUT.application(number, digest), source)
        self.store.create(LAYOUT.place(Deployment, number=number), LAYOUT.bytes_of(deployment))
        return deployment

    def begin_epoch(
        self,
        number: int = 1,
        deployment: int = 1,
        *,
        queries: tuple[str, ...] = (),
        executors: int | None = None,
    ) -> Epoch:
        """
        Begin an epoch.

        :param queries: Those that are to wait at the barrier, for a standby.
        :param executors: Of a driver whose size is managed.
        """
        epoch = Epoch(
            number=number,
            stream=STREAM,
            deployment=deployment,
            token=f"token-{number}",
            host=Host(name="anywhere"),
            launcher="test",
            cause=LaunchCause.FIRST,
            reason="A test begins.",
            by="a test",
            created_at=NOW,
            standby=bool(queries),
            queries=queries,
            executors=executors,
        )
        self.store.create(LAYOUT.place(Epoch, number=number), LAYOUT.bytes_of(epoch))
        return epoch

    def launch(
        self,
        epoch: int = 1,
        *options: str,
        env: dict[str, str] | None = None,
        submit: Sequence[str] = (),
        mode: str = "ab",
    ) -> Driver:
        """
        Start the driver of an epoch that was begun.

        :param options: For the driver.
        :param submit: Options for ``spark-submit``.
        :param mode: Of the log; a launch on this host appends, and a node manager of YARN writes.
        """
        log = self.folder / f"driver-{epoch}.log"
        with log.open(mode) as output:
            process = subprocess.Popen(
                [
                    *self._submit(submit),
                    "--epoch",
                    str(epoch),
                    "--token",
                    mark_of(f"token-{epoch}"),
                    *options,
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**spark_environment(self.runtime), **(env or {})},
                cwd=self.folder,
                start_new_session=True,
            )
        driver = Driver(self, epoch, process, log)
        self.drivers.append(driver)
        return driver

    def run(self, script: str, *, env: dict[str, str] | None = None, **changes: Any) -> Driver:
        """Deploy a script, begin the first epoch, and start its driver."""
        self.deploy(script, **changes)
        self.begin_epoch()
        return self.launch(env=env)

    def _submit(self, more: Sequence[str]) -> list[str]:
        conf = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        settings = [part for pair in conf.items() for part in ("--conf", "=".join(pair))]
        submit = str(self._spark_home() / "bin" / "spark-submit")
        main = str(PACKAGE / "driver" / "main.py")
        wrapper = ["--py-files", str(self.package), main, "--home", str(self.home)]
        return [submit, *settings, *more, *wrapper, "--stream", STREAM]

    def _spark_home(self) -> Path:
        return next(self.runtime.glob("lib/python*/site-packages/pyspark"))


@contextlib.contextmanager
def world_in(folder: Path, runtime: Path, package: Path) -> Iterator[World]:
    """Give a world whose drivers are all gone afterwards."""
    world = World(folder, runtime, package)
    try:
        yield world
    finally:
        for driver in world.drivers:
            driver.kill()


def lines(path: Path) -> list[dict[str, Any]]:
    """Read a file with one JSON value a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]
