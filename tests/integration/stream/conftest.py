"""A stream whose every part is real but the scheduler: the test hands events to the task itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import psutil
import pyarrow.parquet
import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.launch.cluster_policy import ask_recorded
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.port import TOKEN_OPTION
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Exit, Launch
from airflow_streaming.operators.switch import StopStreamOperator
from airflow_streaming.spec import Budget, RestartPolicy
from tests.integration.servers.standalone import Cluster, processes_with, standalone_cluster
from tests.patience import PATIENCE, tail, until
from tests.quick_java import quick_conf
from tests.unit.world import World

CANARY: Final = "planted-canary-5c1e"
UNBOUNDED: Final = RestartPolicy(
    first_delay=timedelta(milliseconds=1),
    max_delay=timedelta(milliseconds=2),
    budgets=(Budget(restarts=100, window=timedelta(hours=1)),),
    application_budgets=(Budget(restarts=100, window=timedelta(hours=1)),),
)
"""For drivers that a test kills one after another."""

SCRIPT = """
import sys
from pyspark.sql import SparkSession

output = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
numbers = (
    spark.readStream.format("rate-micro-batch")
    .option("rowsPerBatch", 10).option("numPartitions", 1).load()
)
numbers.writeStream.queryName("numbers").format("parquet")\\
    .trigger(processingTime="500 milliseconds").start(output)
"""


class RealStream(World):
    """The small world of the unit tests, with real drivers in it."""

    spark: str = "4.3.0"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.script.write_text(SCRIPT)
        self.output = folder / "output"

    def spec(self, **changes: Any) -> Any:
        asked: dict[str, Any] = {
            "application_args": ["{output}"],
            "output": str(self.output),
            "conf": {
                "spark.driver.memory": "512m",
                "spark.ui.enabled": False,
                "spark.sql.shuffle.partitions": 1,
                **quick_conf(self.spark),
            },
        }
        return super().spec(**{**asked, **changes})

    def launch(self, epoch: int) -> Launch:
        found = self.home.launch(epoch)
        assert found is not None
        return found

    def signal(self, epoch: int, what: signal.Signals) -> None:
        """Signal the whole process group of a driver."""
        os.killpg(int(self.launch(epoch).handle["pid"]), what)

    def drivers(self) -> set[str]:
        """Return the marks of all drivers whose JVM lives."""
        found = processes_with("org.apache.spark.deploy.SparkSubmit", self.uri)
        return {_mark_of(process) for process in found if _is_driver(process)} - {""}

    def is_gone(self, epoch: int) -> bool:
        seen = LocalLauncher().probe(self.home.epoch(epoch), self.launch(epoch))
        return seen.state is ProcessState.GONE

    def until(self, condition: Callable[[], Any], what: str, every: float = 0.1) -> None:
        """Wait for something that the drivers do; a failure shows what they logged."""
        logs = lambda: "\n".join(map(tail, sorted(self._logs())))
        until(condition, what, seen=logs, every=every)

    def _logs(self) -> Iterator[Path]:
        launches = (self.home.launch(number) for number in range(1, self.epochs() + 1))
        return (Path(launch.log) for launch in launches if launch is not None)

    def batches(self, epoch: int) -> int:
        status = self.home.status(epoch)
        return status.batches if status else 0

    def first_batch(self, epoch: int) -> int:
        """Return the first batch of an epoch, given that it committed every batch since."""
        status = self.home.status(epoch)
        assert status is not None
        (query,) = status.queries
        assert query.progress is not None
        return query.progress.batch_id - query.batches + 1

    def commits(self) -> dict[int, str]:
        """Return what every commit file of the checkpoint holds, by batch."""
        folder = Path(self.home.deployment(1).checkpoint) / "numbers" / "commits"
        return {int(f.name): f.read_text() for f in folder.glob("[0-9]*") if f.name.isdigit()}

    def numbers(self) -> list[int]:
        """Return the rows that the sink's log vouches for, sorted."""
        log, found = self.output / "_spark_metadata", list[int]()
        compacted = max((int(file.stem) for file in log.glob("[0-9]*.compact")), default=-1)
        batches = [f for f in log.glob("[0-9]*") if f.name.isdigit() and int(f.name) > compacted]
        for batch in [*log.glob(f"{compacted}.compact"), *batches]:
            for line in batch.read_text().splitlines()[1:]:
                file = json.loads(line)["path"].removeprefix("file://")
                found += pyarrow.parquet.read_table(file, columns=["value"])["value"].to_pylist()
        return sorted(found)

    def end(self) -> None:
        """Leave no process behind."""
        for number in range(1, self.epochs() + 1):
            # An epoch that only fences has no driver.
            if self.home.launch(number) is not None:
                with contextlib.suppress(ProcessLookupError):
                    self.signal(number, signal.SIGKILL)


class ClusterStream(RealStream):
    """A stream whose drivers run on the worker of a standalone cluster."""

    cluster: Cluster
    python: Path

    def spec(self, **changes: Any) -> Any:
        conf = {
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.executor.memory": "512m",
            "spark.cores.max": 1,
            "spark.ui.enabled": False,
            "spark.sql.shuffle.partitions": 1,
            **quick_conf(self.spark),
            "spark.pyspark.python": str(self.python),
            "spark.hadoop.my.password": CANARY,
        }
        return super().spec(**{"conf": conf, "env": {"MY_API": CANARY}, **changes})

    def until(self, condition: Any, what: str, every: float = 0.1) -> None:
        until(condition, what, seen=self.cluster.logs, every=every)

    def stop(self) -> Exit:
        """Stop the newest driver as a dag does, and wait for its end."""
        epoch = self.epochs()
        stop = StopStreamOperator(task_id="stop", home=self.uri, stream="orders")
        with contextlib.suppress(TaskDeferred):  # a driver that is quick has ended by then
            stop.execute(self.context())
        self.until(lambda: self.home.exit(epoch) is not None, "the exit record")
        self.until(lambda: self.is_gone(epoch), f"the end of epoch {epoch}")
        found = self.home.exit(epoch)
        assert found is not None
        return found

    def driver(self, epoch: int) -> psutil.Process:
        """Return the JVM of a driver."""
        found = processes_with("org.apache.spark.deploy.SparkSubmit", self.home.epoch(epoch).mark)
        (jvm,) = filter(_is_driver, found)
        return jvm

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of all executors."""
        found = processes_with("CoarseGrainedExecutorBackend")
        return [process for process in found if self._is_ours(process)]

    def kill_executors(self) -> int:
        """Kill all executors and wait until others have done some batches; return how many."""
        executors = self.executors()
        for executor in executors:
            executor.kill()
        self.until(self.executors, "other executors")
        epoch = self.epochs()
        before = self.batches(epoch)
        self.until(lambda: self.batches(epoch) > before + 2, "batches of other executors")
        return len(executors)

    def _is_ours(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            return Path(process.cwd()).is_relative_to(self.cluster.work)
        return False

    def is_gone(self, epoch: int) -> bool:
        seen = open_launcher(policy=ask_recorded).probe(
            self.home.epoch(epoch), self.home.launch(epoch)
        )
        return seen.state is ProcessState.GONE

    def end(self) -> None:
        for number in range(1, self.epochs() + 1):
            for process in processes_with(self.home.epoch(number).mark):
                with contextlib.suppress(psutil.Error):
                    process.kill()


def _is_driver(process: psutil.Process) -> bool:
    """Tell a driver's JVM from the shell that starts it, the JVM that makes its command, and one that submits."""
    with contextlib.suppress(psutil.Error):
        command = process.cmdline()  # nothing of one that ends
        is_java = bool(command) and command[0].endswith("java")
        is_submission = "--deploy-mode cluster" in " ".join(command)
        return is_java and not is_submission and "org.apache.spark.launcher.Main" not in command
    return False


def _mark_of(process: psutil.Process) -> str:
    """Return a driver's mark; a JVM that starts another process is two of that mark for a moment."""
    with contextlib.suppress(psutil.Error, ValueError, IndexError):
        command = process.cmdline()
        return command[command.index(TOKEN_OPTION) + 1]
    return ""


class KeptStream:
    """A stream and its trigger and task, which the test plays."""

    def __init__(self, real: RealStream, **spec: Any) -> None:
        self.real, self.home = real, real.home
        self.operator = real.operator(**spec)
        self.trigger = real.run(self.operator)

    def look(self) -> None:
        """Look once as the trigger does, and act as its task."""
        event, _ = self.trigger.look_once()
        if event is not None:
            self.trigger = self.real.wake(self.trigger, self.operator, **event)

    def keep_until(self, condition: Callable[[], Any], what: str, every: float = 0.1) -> None:
        """Look until a condition holds."""

        def look() -> Any:
            self.look()
            return condition()

        self.real.until(look, what, every)


class Most:
    """
    The most that there was of something at once, looked at four times a second in a thread.

    :param look: Returns what there is.
    """

    EVERY: Final = 0.25

    def __init__(self, look: Callable[[], set[str]]) -> None:
        self._look, self._over = look, threading.Event()
        self.most, self.looks = set[str](), 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._over.wait(self.EVERY):
            self.most = max(self.most, self._look(), key=len)
            self.looks += 1


async def first_event(trigger: Any) -> dict[str, Any]:
    """Let a trigger look until it fires."""
    async with asyncio.timeout(PATIENCE):
        events = [event.payload async for event in trigger.run()]
    payload: dict[str, Any] = events[0]
    return payload


@pytest.fixture
def real(tmp_path: Path, spark_4_3: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealStream]:
    """Return a stream on Spark 4.3; its drivers are gone when the test ends."""
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps({"spark-4.3": str(spark_4_3)}))
    monkeypatch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(tmp_path / "drivers"))
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"})
    )
    # An event at once: there is no scheduler here that has to see the deferral first.
    monkeypatch.setattr("airflow_streaming.triggers.polling.HOLD", timedelta(0))
    stream = RealStream(tmp_path)
    yield stream
    stream.end()


@pytest.fixture
def clustered(
    tmp_path: Path, spark_4_3: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClusterStream]:
    """Return a stream on a standalone cluster of Spark 4.3; its drivers are gone when the test ends."""
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps({"spark-4.3": str(spark_4_3)}))
    monkeypatch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(tmp_path / "drivers"))
    monkeypatch.setattr("airflow_streaming.triggers.polling.HOLD", timedelta(0))
    with standalone_cluster(spark_4_3, tmp_path) as cluster:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(cluster.connection()))
        made = ClusterStream(tmp_path)
        made.cluster, made.python = cluster, spark_4_3 / "bin" / "python"
        yield made
        made.end()
