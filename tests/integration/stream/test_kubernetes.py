"""
A stream on Kubernetes, submitted by spark-submit or as a Spark operator's resource.

The API server and Spark are real; the test plays kubelet, garbage collector and operator.
"""

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

from airflow_streaming.launch.cluster_policy import ask_recorded
from airflow_streaming.launch.clusters.kubernetes_api import Namespace
from airflow_streaming.launch.clusters.pods import pod_name
from airflow_streaming.launch.clusters.spark_operators import APACHE, OPERATORS
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.supervision.decide import decide
from airflow_streaming.supervision.observer import Observer
from tests.conftest import RUNS_NIGHTLY
from tests.integration.servers.kubernetes import (
    ApiServer,
    Command,
    GarbageCollector,
    Kubelet,
    api_server,
    forget_lists,
)
from tests.integration.servers.operators import PlayedOperator, install
from tests.integration.servers.spark_pods import SparkContainers, SparkSubmission
from tests.integration.servers.standalone import processes_with
from tests.integration.stream.conftest import UNBOUNDED, Most, RealStream, first_event
from tests.patience import tail, until

KILLS = 10
"""Losses of the driver, in each way in turn; the executors are lost as well in the first epochs."""
EXECUTOR_LOSSES = 5
AWAY = 300.0 if RUNS_NIGHTLY else 0.0
"""Seconds for which the API server is away at least."""
GRACE = 3.0
"""Seconds from SIGTERM to SIGKILL for the containers of a pod that is deleted."""
LATE = 5.0
"""Seconds until an operator notices what became of a pod."""
CANARY = "planted-canary-9d2f"
RUNNING, GONE = ProcessState.RUNNING, ProcessState.GONE
SPARK_SUBMIT = "spark-submit"
OF_PODS = ("killed", "deleted")
OF_RESOURCES = (*OF_PODS, "resource deleted")


class PodStream(RealStream):
    """
    A stream whose drivers and executors are pods.

    :param kind: The operator whose resources the drivers are, or ``SPARK_SUBMIT``.
    """

    server: ApiServer
    kubelet: Kubelet
    kind: str
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

    def state(self, epoch: int) -> ProcessState:
        """Return what the launcher sees of a driver."""
        return (
            open_launcher(policy=ask_recorded)
            .probe(self.home.epoch(epoch), self.home.launch(epoch))
            .state
        )

    def admin(self) -> Namespace:
        return self.server.namespace()

    def lose_driver(self, epoch: int, way: str) -> None:
        """Kill a driver's container, or delete its pod or its resource."""
        name = pod_name(self.home.epoch(epoch))
        if way == "killed":
            self.kubelet.kill(name)
        elif way == "deleted":
            self.admin().ask("DELETE", f"pods/{name}")
        else:
            api = OPERATORS[self.kind].api
            self.admin().ask("DELETE", f"sparkapplications/{name}", api=api)

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
    """Stand in for the processes of a driver, which says nothing of itself and does not end when asked."""
    command = ["sh", "-c", "trap '' TERM; sleep 600"]
    return subprocess.Popen(command, start_new_session=True)


@pytest.fixture
def container() -> Command | None:
    """Return what runs instead of Spark in the pods; ``None`` for Spark."""
    return None


@pytest.fixture
def kind() -> str:
    """Return the operator whose resources the drivers are."""
    return SPARK_SUBMIT


@pytest.fixture
def stream(
    tmp_path: Path,
    spark_4_3: Path,
    monkeypatch: pytest.MonkeyPatch,
    container: Command | None,
    kind: str,
) -> Iterator[PodStream]:
    monkeypatch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(tmp_path / "drivers"))
    monkeypatch.setattr("airflow_streaming.triggers.polling.HOLD", timedelta(0))
    runtimes = {"spark-4.3": {"path": str(spark_4_3), "image": "spark:4.3.0"}}
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps(runtimes))
    with api_server(tmp_path) as server:
        extra = {"deploy-mode": "cluster", "namespace": "streams"}
        if kind != SPARK_SUBMIT:
            extra["spark-operator"] = kind.removesuffix("-operator")
        connection = {"conn_type": "spark", "host": f"k8s://{server.front}", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        config = tmp_path / "kubeconfig"
        config.write_text(server.credentials("airflow", by_front=True).kubeconfig())
        monkeypatch.setenv("KUBECONFIG", str(config))
        made = PodStream(tmp_path)
        made.server, made.token, made.pods = server, tmp_path / "token", tmp_path / "pods"
        made.kind = kind
        made.token.write_text(server.tokens["admin"])
        made.kubelet = Kubelet(server, container or SparkContainers(server, spark_4_3, made.pods))
        made.kubelet.grace = GRACE
        with contextlib.ExitStack() as parts:
            parts.callback(made.kubelet.close)
            if kind == SPARK_SUBMIT:
                parts.callback(GarbageCollector(server).close)
            else:
                install(server)
                submit = SparkSubmission(server, kind, spark_4_3, tmp_path / "submissions")
                operator = PlayedOperator(server, kind, None if container else submit)
                operator.late = LATE
                parts.callback(operator.close)
                owners = [(OPERATORS[kind].api, "sparkapplications")]
                parts.callback(GarbageCollector(server, owners).close)
            yield made


@pytest.mark.parametrize("container", [sleeper])
@pytest.mark.parametrize("kind", [SPARK_SUBMIT, *(OPERATORS if RUNS_NIGHTLY else ())])
async def test_the_stream_outlives_its_worker_and_an_api_server_that_goes_away(
    stream: PodStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {*stream.server.pids.values()}
    before = {child.pid for child in psutil.Process().children(recursive=True)}

    trigger = stream.run()

    # The pod of a worker goes with all that its task has started, and that is nothing by then.
    stream.until(lambda: pod_name(stream.home.epoch(1)) in stream.kubelet.ran, "the pod's start")
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    containers = [psutil.Process(one.pid) for one in stream.kubelet.processes.values()]
    pods = {one.pid for top in containers for one in (top, *top.children(recursive=True))}
    assert children - before - pods - servers == set()

    # Time goes by for the launchers while nobody answers: each look asks anew.
    forget_lists(monkeypatch)
    stream.server.suspend()
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr("airflow_streaming.launch.clusters.rest.TIMEOUT", 1.0)
            observer, looks = Observer(stream.home, open_launcher(policy=ask_recorded)), list[Any]()
            begun = time.monotonic()
            while len(looks) < 3 or time.monotonic() - begun < AWAY:
                looks.append(observer.situation())
            again = stream.run()  # a retry, a cleared task, the next run
        print(f"{len(looks)} looks in {time.monotonic() - begun:.0f} s without an API server")
    finally:
        stream.server.resume()

    assert {decide(look).is_passive for look in looks} == {True}
    assert (again.watched, stream.epochs()) == (trigger.watched, 1)
    assert stream.home.aftermath(1).death is None
    stream.until(lambda: stream.state(1) is RUNNING, "the driver in sight again")
    adopted = stream.run()
    assert (adopted.watched, adopted.blocked, stream.epochs()) == (trigger.watched, False, 1)
    (pod,) = stream.admin().pods("spark-role=driver")
    assert stream.kubelet.alive() == {pod["metadata"]["uid"]}


async def lose(stream: PodStream, operator: Any, trigger: Any, epoch: int, way: str) -> Any:
    """Lose an epoch's driver and wait for the next epoch; return its trigger."""
    stream.lose_driver(epoch, way)
    while stream.epochs() == epoch:
        trigger = stream.wake(trigger, operator, **(await first_event(trigger)))
    return trigger


@pytest.mark.parametrize("container", [sleeper])
@pytest.mark.parametrize("kind", OPERATORS if RUNS_NIGHTLY else [APACHE])
async def test_a_resource_lost_in_any_way_is_followed_by_one_driver(stream: PodStream) -> None:
    operator = stream.operator(restart=UNBOUNDED)
    trigger = stream.run(operator)
    with Most(stream.kubelet.alive) as drivers:
        for epoch, way in enumerate(OF_RESOURCES, 1):
            started = lambda epoch=epoch: pod_name(stream.home.epoch(epoch)) in stream.kubelet.ran
            stream.until(started, f"the pod of epoch {epoch}")
            assert shows(stream, trigger) == []
            trigger = await lose(stream, operator, trigger, epoch, way)

    assert len(drivers.most) == 1
    assert len(set(stream.kubelet.ran)) == len(stream.kubelet.ran) >= len(OF_RESOURCES)


@pytest.mark.nightly("It takes five minutes or more.")
@pytest.mark.parametrize(
    ("kind", "ways"),
    [(SPARK_SUBMIT, OF_PODS), *((operator, OF_RESOURCES) for operator in OPERATORS)],
    ids=[SPARK_SUBMIT, *OPERATORS],
)
async def test_lost_pods_lose_and_double_nothing(stream: PodStream, ways: tuple[str, ...]) -> None:
    operator, begun, executors = stream.operator(restart=UNBOUNDED), time.monotonic(), 0
    trigger = stream.run(operator)
    print(f"A submission took {time.monotonic() - begun:.1f} s.")
    with Most(stream.drivers) as drivers:
        for epoch in range(1, KILLS + 1):
            stream.until(lambda epoch=epoch: stream.batches(epoch) >= 3, f"batches of {epoch}")
            assert stream.epochs() == epoch
            if epoch == 1:
                assert shows(stream, trigger) == []
            if epoch <= EXECUTOR_LOSSES:
                executors += stream.lose_executors(epoch)
            way = ways[epoch % len(ways)]
            at, load = time.monotonic() - begun, os.getloadavg()[0]
            print(
                f"{at:.0f} s, load {load:.1f}: driver {epoch} {way}, {executors} executors killed",
                flush=True,
            )
            trigger = await lose(stream, operator, trigger, epoch, way)
        newest = stream.epochs()
        stream.until(lambda: stream.batches(newest) >= 3, f"batches of epoch {newest}")
        stream.lose_driver(newest, "killed")
        stream.until(lambda: stream.state(newest) is GONE, "the end of the last pod")
    numbers = stream.numbers()
    print(f"{len(numbers)} rows, at most {len(drivers.most)} drivers in {drivers.looks} looks")
    assert executors >= EXECUTOR_LOSSES
    assert len(drivers.most) == 1
    assert numbers == list(range(len(numbers))), "no row lost or doubled"


def shows(stream: PodStream, trigger: Any) -> list[str]:
    """Return where a planted secret can be read that is no Secret."""
    told = {"trigger": trigger.serialize(), "XCom": stream.ti.xcoms}
    found = [place for place, values in told.items() if CANARY in repr(values)]
    found += [" ".join(process.cmdline()) for process in processes_with(CANARY)]
    asked = [("api/v1", kind) for kind in ("pods", "configmaps", "services", "events")]
    if stream.kind != SPARK_SUBMIT:
        asked.append((OPERATORS[stream.kind].api, "sparkapplications"))
    for api, kind in asked:
        answer = stream.admin().ask("GET", kind, api=api)
        assert answer.is_success
        if CANARY in json.dumps(dict(answer.body)):
            found.append(kind)
    ours = [path for path in stream.folder.rglob("*") if path.is_file()]
    outside = [path for path in ours if not path.is_relative_to(stream.folder / "kubernetes")]
    # The pods' own volumes are the containers' file systems.
    readable = [path for path in outside if not path.is_relative_to(stream.pods)]
    return found + [str(path) for path in readable if CANARY.encode() in path.read_bytes()]
