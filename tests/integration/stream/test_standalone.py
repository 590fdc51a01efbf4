"""A stream in the cluster mode of a standalone cluster: killed, restarted, stopped; nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.operators.switch import StopStreamOperator
from tests.integration.servers.standalone import Cluster, processes_with, standalone_cluster
from tests.integration.stream.conftest import RealStream, first_event
from tests.patience import until

DRIVER_KILLS = 10 if os.environ.get("AIRFLOW_STREAMING_TEST_MORE") else 2
EXECUTOR_KILLS = 5 if os.environ.get("AIRFLOW_STREAMING_TEST_MORE") else 1
CANARY = "planted-canary-5c1e"


class ClusterStream(RealStream):
    """A stream whose drivers run on a cluster's worker."""

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
            "spark.pyspark.python": str(self.python),
            "spark.hadoop.my.password": CANARY,
        }
        return super().spec(**{"conf": conf, "env": {"MY_API": CANARY}, **changes})

    def until(self, condition: Any, what: str) -> None:
        until(condition, what, seen=self.cluster.logs)

    def driver(self, epoch: int) -> psutil.Process:
        """Return the JVM of a driver."""
        mark = self.home.epoch(epoch).mark
        (jvm,) = processes_with("DriverWrapper", mark)
        return jvm

    def is_gone(self, epoch: int) -> bool:
        seen = open_launcher().probe(self.home.epoch(epoch), self.home.launch(epoch))
        return seen.state is ProcessState.GONE

    def end(self) -> None:
        for number in range(1, self.epochs() + 1):
            for process in processes_with(self.home.epoch(number).mark):
                with contextlib.suppress(psutil.Error):
                    process.kill()


@pytest.fixture
def stream(
    tmp_path: Path, spark_4_3: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClusterStream]:
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps({"spark-4.3": str(spark_4_3)}))
    monkeypatch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(tmp_path / "drivers"))
    monkeypatch.setattr("airflow_streaming.triggers.polling.HOLD", timedelta(0))
    with standalone_cluster(spark_4_3, tmp_path) as cluster:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(cluster.connection()))
        made = ClusterStream(tmp_path)
        made.cluster, made.python = cluster, spark_4_3 / "bin" / "python"
        yield made
        made.end()


async def test_kills_of_driver_and_executors_lose_and_double_nothing(stream: ClusterStream) -> None:
    operator = stream.operator()
    trigger = stream.run(operator)
    for epoch in range(1, DRIVER_KILLS + 1):
        stream.until(lambda epoch=epoch: stream.batches(epoch) >= 3, f"batches of epoch {epoch}")
        assert stream.epochs() == epoch
        if epoch <= EXECUTOR_KILLS:
            before = stream.batches(epoch)
            for executor in processes_with(
                "CoarseGrainedExecutorBackend", str(stream.cluster.port)
            ):
                executor.kill()
            stream.until(
                lambda epoch=epoch, before=before: stream.batches(epoch) > before + 2,
                "batches after the loss of the executors",
            )
        assert _shows(stream) == []
        stream.driver(epoch).kill()
        while stream.epochs() == epoch:
            trigger = stream.wake(trigger, operator, **(await first_event(trigger)))
        assert stream.home.death(epoch) is not None or stream.is_gone(epoch)
    newest = stream.epochs()
    stream.until(lambda: stream.batches(newest) >= 3, f"batches of epoch {newest}")

    stop = StopStreamOperator(task_id="stop", home=stream.uri, stream="orders")
    with suppress(TaskDeferred):  # a driver that is quick has ended by then
        stop.execute(stream.context())
    stream.until(lambda: stream.home.exit(newest) is not None, "the exit record")
    exit = stream.home.exit(newest)
    assert exit is not None
    assert exit.outcome is Outcome.STOPPED
    stream.until(lambda: stream.is_gone(newest), f"the end of epoch {newest}")
    numbers = stream.numbers()
    assert numbers == list(range(len(numbers))), "no row lost or doubled"


def _shows(stream: ClusterStream) -> list[str]:
    """Return where a planted secret can be read: command lines, and files of the home and worker."""
    lines = [" ".join(process.cmdline()) for process in processes_with(CANARY)]
    files = [path for path in stream.folder.rglob("*") if path.is_file() and path.suffix != ".jar"]
    return lines + [str(path) for path in files if CANARY.encode() in _bytes(path)]


def _bytes(path: Path) -> bytes:
    """Return what a file holds; nothing of one that Spark has renamed or deleted meanwhile."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return b""
