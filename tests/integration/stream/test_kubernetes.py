"""A stream on Kubernetes: a real API server, real Spark, and a kubelet that the test plays."""

# ruff: noqa: T201 - it prints what it has measured

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_streaming.launch.clusters.kubernetes_api import Namespace
from airflow_streaming.launch.clusters.pods import pod_name
from airflow_streaming.launch.clusters.rest import Unreachable
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.supervision.decide import decide
from airflow_streaming.supervision.observer import Observer
from tests.integration.servers.kubernetes import (
    ApiServer,
    Command,
    Kubelet,
    api_server,
    forget_lists,
)
from tests.integration.servers.spark_pods import SparkContainers
from tests.integration.servers.standalone import processes_with
from tests.integration.stream.conftest import UNBOUNDED, RealStream, first_event
from tests.patience import tail, until

KILLS = 5
"""Losses of the driver in each way; the executors are lost as well in the first epochs."""
EXECUTOR_LOSSES = 3
CANARY = "planted-canary-9d2f"


class PodStream(RealStream):
    """A stream whose drivers and executors are pods."""

    server: ApiServer
    kubelet: Kubelet
    token: Path
    pods: Path

    def spec(self, **changes: Any) -> Any:
        conf = {
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": 1,
            "spark.ui.enabled": False,
            "spark.sql.shuffle.partitions": 1,
            "spark.kubernetes.executor.useDriverPodIP": "true",
            # In a cluster all of this is the pod's service account. The driver watches its executors
            # by a WebSocket, which only the server itself has: behind the front it would wait for it
            # for ever.
            "spark.kubernetes.driver.master": self.server.server,
            "spark.kubernetes.authenticate.driver.mounted.caCertFile": self.server.authority,
            "spark.kubernetes.authenticate.driver.mounted.oauthTokenFile": str(self.token),
            "spark.hadoop.my.password": CANARY,
        }
        return super().spec(**{"conf": conf, "env": {"MY_API": CANARY}, **changes})

    def until(self, condition: Any, what: str) -> None:
        def logs() -> str:
            return "\n".join(f"{log}:\n{tail(log)}" for log in sorted(self.folder.rglob("*log")))

        until(condition, what, seen=logs)

    def is_gone(self, epoch: int) -> bool:
        seen = open_launcher().probe(self.home.epoch(epoch), self.home.launch(epoch))
        return seen.state is ProcessState.GONE

    def admin(self) -> Namespace:
        return self.server.namespace()

    def lose_driver(self, epoch: int, way: str) -> None:
        """Kill a driver's container, or delete its pod."""
        name = pod_name(self.home.epoch(epoch))
        if way == "killed":
            self.kubelet.kill(name)
        else:
            self.admin().ask("DELETE", f"pods/{name}")

    def executors(self) -> set[str]:
        """Return the names of the executors' pods that run."""
        pods = self.admin().pods("spark-role=executor")
        return {pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"}

    def lose_executors(self, epoch: int) -> int:
        """Kill an epoch's executors and wait until others have done some batches; return how many."""
        lost = self.executors()
        for name in lost:
            self.kubelet.kill(name)
        self.until(lambda: self.executors() - lost, "other executors")
        before = self.batches(epoch)
        self.until(lambda: self.batches(epoch) > before + 2, "batches of other executors")
        return len(lost)

    def end(self) -> None:
        pass


def sleeper(pod: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Stand in for the processes of a driver, which then says nothing of itself."""
    return subprocess.Popen(["sleep", "600"], start_new_session=True)


@pytest.fixture
def container() -> Command | None:
    """Return what runs instead of Spark in the pods; ``None`` for Spark."""
    return None


@pytest.fixture
def stream(
    tmp_path: Path,
    spark_4_3: Path,
    monkeypatch: pytest.MonkeyPatch,
    container: Command | None,
) -> Iterator[PodStream]:
    monkeypatch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(tmp_path / "drivers"))
    monkeypatch.setattr("airflow_streaming.triggers.polling.HOLD", timedelta(0))
    runtimes = {"spark-4.3": {"path": str(spark_4_3), "image": "spark:4.3.0"}}
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps(runtimes))
    with api_server(tmp_path) as server:
        extra = {"deploy-mode": "cluster", "namespace": "streams"}
        connection = {"conn_type": "spark", "host": f"k8s://{server.front}", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        config = tmp_path / "kubeconfig"
        config.write_text(server.credentials("airflow", by_front=True).kubeconfig())
        monkeypatch.setenv("KUBECONFIG", str(config))
        made = PodStream(tmp_path)
        made.server, made.token, made.pods = server, tmp_path / "token", tmp_path / "pods"
        made.token.write_text(server.tokens["admin"])
        spark = SparkContainers(server, spark_4_3, made.pods)
        made.kubelet = Kubelet(server, container or spark)
        yield made
        made.kubelet.close()


@pytest.mark.parametrize("container", [sleeper])
async def test_the_stream_outlives_its_worker_and_an_api_server_that_goes_away(
    stream: PodStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {*stream.server.pids.values()}
    before = {child.pid for child in psutil.Process().children(recursive=True)}

    trigger = stream.run()

    # The pod of a worker goes with all that its task has started, and that is nothing by then.
    pods = {process.pid for process in stream.kubelet.processes.values()}
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    assert children - before - pods - servers == set()
    stream.until(lambda: pod_name(stream.home.epoch(1)) in stream.kubelet.ran, "the pod's start")

    monkeypatch.setattr("airflow_streaming.launch.clusters.rest.TIMEOUT", 1.0)
    # Time goes by for the launchers while nobody answers: each look asks anew.
    forget_lists(monkeypatch)
    stream.server.suspend()
    try:
        observer = Observer(stream.home, open_launcher())
        looks = [observer.situation() for _ in range(3)]
        again = stream.run()  # a retry, a cleared task, the next run
    finally:
        stream.server.resume()

    assert {decide(look).is_passive for look in looks} == {True}
    assert (again.watched, stream.epochs()) == (trigger.watched, 1)
    assert stream.home.aftermath(1).death is None
    adopted = stream.run()
    assert (adopted.watched, adopted.blocked, stream.epochs()) == (trigger.watched, False, 1)
    (pod,) = stream.admin().pods("spark-role=driver")
    assert pod["status"]["phase"] == "Running"


@pytest.mark.skipif(
    "AIRFLOW_STREAMING_TEST_MORE" not in os.environ,
    reason="It takes five minutes or more; set AIRFLOW_STREAMING_TEST_MORE to run it.",
)
@pytest.mark.parametrize("way", ["killed", "deleted"])
async def test_lost_pods_lose_and_double_nothing(stream: PodStream, way: str) -> None:
    operator, begun, executors = stream.operator(restart=UNBOUNDED), time.monotonic(), 0
    trigger = stream.run(operator)
    print(f"A submission took {time.monotonic() - begun:.1f} s.")
    for epoch in range(1, KILLS + 1):
        stream.until(lambda epoch=epoch: stream.batches(epoch) >= 3, f"batches of epoch {epoch}")
        assert stream.epochs() == epoch
        if epoch == 1:
            assert _shows(stream) == []
        if epoch <= EXECUTOR_LOSSES:
            executors += stream.lose_executors(epoch)
        stream.lose_driver(epoch, way)
        at = time.monotonic() - begun
        print(f"{at:.0f} s: driver {epoch} {way}, {executors} executors lost", flush=True)
        while stream.epochs() == epoch:
            trigger = stream.wake(trigger, operator, **(await first_event(trigger)))
    newest = stream.epochs()
    stream.until(lambda: stream.batches(newest) >= 3, f"batches of epoch {newest}")
    stream.lose_driver(newest, way)
    stream.until(lambda: stream.is_gone(newest), "the end of the last pod")
    numbers = stream.numbers()
    print(f"{len(numbers)} rows, at most {stream.kubelet.most_drivers} drivers")
    assert executors >= EXECUTOR_LOSSES
    assert stream.kubelet.most_drivers == 1
    assert numbers == list(range(len(numbers))), "no row lost or doubled"


def _shows(stream: PodStream) -> list[str]:
    """Return where a planted secret can be read that is no Secret."""
    found = [" ".join(process.cmdline()) for process in processes_with(CANARY)]
    for kind in ("pods", "configmaps", "services", "events"):
        with contextlib.suppress(Unreachable):
            if CANARY in json.dumps(dict(stream.admin().ask("GET", kind).body)):
                found.append(kind)
    ours = [path for path in stream.folder.rglob("*") if path.is_file()]
    outside = [path for path in ours if not path.is_relative_to(stream.folder / "kubernetes")]
    # The pods' own volumes are the containers' file systems.
    readable = [path for path in outside if not path.is_relative_to(stream.pods)]
    return found + [str(path) for path in readable if CANARY.encode() in path.read_bytes()]
