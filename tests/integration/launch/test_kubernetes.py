"""Pods of a real API server: the launchers' contract, its rights, and what no answer proves."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch.clusters import kubernetes
from airflow_streaming.launch.clusters.kubernetes import KubernetesLauncher
from airflow_streaming.launch.clusters.kubernetes_api import Credentials, Namespace, Place
from airflow_streaming.launch.clusters.pods import labels_of, pod_name
from airflow_streaming.launch.clusters.rest import Unreachable
from airflow_streaming.launch.clusters.shared_table import SharedTables
from airflow_streaming.launch.package import build_driver_package
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Epoch, Launch
from tests.integration.servers.kubernetes import ApiServer, Kubelet, api_server, forget_lists
from tests.patience import until
from tests.unit.launch import test_port_contract as contract


def sleeper(pod: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Stand in for the processes of a driver."""
    return subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)"], start_new_session=True
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("cluster")) as running:
        yield running


class PodWorld:
    """Pods with the names and labels that Spark's client gives them, created with Airflow's rights."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.kubelet = Kubelet(server, sleeper)
        self.asked: list[Place] = []
        self.creates = True
        self.launcher = KubernetesLauncher(str(server.place()), login=self.login, run=self._submit)

    def login(self, place: Place) -> Credentials:
        self.asked.append(place)
        return self.server.credentials("airflow")

    def start(self, epoch: Epoch) -> Launch:
        return self.launcher.launch(self.request(epoch))

    def request(self, epoch: Epoch, **changes: Any) -> LaunchRequest:
        package = build_driver_package(self.folder / "package")
        request = contract.cluster_request_for(epoch, self.folder, **changes)
        assert request.application is not None
        application = replace(
            request.application, main=str(package.main), archive=str(package.archive)
        )
        return replace(request, command=("spark-submit",), application=application)

    def lose_all(self, launch: Launch) -> None:
        until(lambda: launch.handle["pod"] in self.kubelet.ran, "the pod's start")
        self.kubelet.kill(launch.handle["pod"])

    def pods(self) -> Namespace:
        return Namespace(self.server.place(), self.login)

    def secrets(self, epoch: Epoch) -> list[dict[str, Any]]:
        found = self.server.namespace("admin").ask("GET", "secrets").body["items"]
        return [one for one in found if one["metadata"]["name"] == pod_name(epoch)]

    def _submit(
        self, request: LaunchRequest, command: tuple[str, ...], environment: Mapping[str, str]
    ) -> int:
        if not self.creates:
            return 1
        epoch = request.epoch
        metadata = {
            "name": pod_name(epoch),
            "labels": {**labels_of(epoch), "spark-role": "driver"},
        }
        container = {"name": "spark-kubernetes-driver", "image": "spark:4.3.0"}
        spec = {"containers": [container], "restartPolicy": "Never"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return 0 if self.pods().ask("POST", "pods", body).is_success else 1


@pytest.fixture
def world(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodWorld]:
    forget_lists(monkeypatch)
    made = PodWorld(server, tmp_path)
    yield made
    made.kubelet.close()


@pytest.fixture
def epoch(world: PodWorld) -> Iterator[Epoch]:
    epoch = contract.make_contract_epoch(world.launcher)
    yield epoch
    world.kubelet.is_lost = False
    world.launcher.kill(epoch, None)
    world.launcher.clean_up(epoch)


@pytest.mark.parametrize(
    "keeps",
    [
        contract.test_a_launched_driver_is_running_and_recorded,
        contract.test_a_driver_is_found_by_its_token,
        contract.test_a_driver_that_was_never_started_is_gone,
        contract.test_a_killed_driver_is_proved_gone,
        contract.test_a_driver_is_killed_by_its_token,
        contract.test_killing_twice_is_harmless,
        contract.test_a_driver_that_ended_is_gone,
        contract.test_the_record_of_a_launch_survives_the_home,
    ],
)
def test_pods_keep_the_contract_of_launchers(
    keeps: Callable[..., None], world: PodWorld, epoch: Epoch
) -> None:
    keeps(world, epoch)


@pytest.mark.parametrize("handle", [{}, {"pod": "another", "uid": "1"}])
def test_a_damaged_handle_changes_no_answer(
    world: PodWorld, epoch: Epoch, handle: dict[str, str]
) -> None:
    contract.test_a_damaged_handle_changes_no_answer(world, epoch, handle)


def test_the_api_server_refuses_a_second_driver_of_an_epoch(world: PodWorld, epoch: Epoch) -> None:
    first = world.start(epoch)

    second = world.start(epoch)

    assert second.handle == first.handle, "the second submission finds the first one's pod"
    pods = world.pods().pods("spark-role=driver")
    assert [pod["metadata"]["name"] for pod in pods].count(pod_name(epoch)) == 1


def test_secrets_belong_to_the_pod_and_are_deleted_with_it(world: PodWorld, epoch: Epoch) -> None:
    request = world.request(
        epoch, secret_conf={"spark.my.password": "planted-1"}, environment={"API": "planted-2"}
    )

    launch = world.launcher.launch(request)

    (secret,) = world.secrets(epoch)
    assert [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == [
        launch.handle["uid"]
    ]
    assert base64.b64decode(secret["data"]["env.API"]) == b"planted-2"
    assert b"planted-1" in base64.b64decode(secret["data"]["conf.json"])
    assert "planted" not in str(world.pods().pods(""))
    # The garbage collector of a whole cluster does it as well.
    world.launcher.kill(epoch, launch)
    world.launcher.clean_up(epoch, launch)
    assert world.secrets(epoch) == []


def test_a_submission_that_creates_no_pod_leaves_nothing(world: PodWorld, epoch: Epoch) -> None:
    world.creates = False

    with pytest.raises(LaunchError):
        world.start(epoch)

    assert world.secrets(epoch) == []
    assert world.launcher.probe(epoch, None).state is ProcessState.GONE


def test_a_pod_on_a_lost_node_is_not_proved_dead_until_it_is_deleted(
    world: PodWorld, epoch: Epoch
) -> None:
    launch = world.start(epoch)
    until(lambda: launch.handle["pod"] in world.kubelet.ran, "the pod's start")
    world.kubelet.is_lost = True

    assert world.launcher.kill(epoch, launch).state is not ProcessState.GONE
    admin = world.server.namespace("admin")
    lost = {"status": {"phase": "Unknown", "reason": "NodeLost"}}
    path = f"pods/{launch.handle['pod']}"
    admin.ask("PATCH", f"{path}/status", lost, content="application/merge-patch+json")
    assert world.launcher.probe(epoch, launch).state is ProcessState.UNSEEN
    # What the control plane writes when the node's object is deleted.
    failed = {"status": {"phase": "Failed", "reason": "DeletionByPodGC"}}
    admin.ask("PATCH", f"{path}/status", failed, content="application/merge-patch+json")
    assert world.launcher.probe(epoch, launch).state is ProcessState.UNSEEN

    vouched = {"gracePeriodSeconds": 0, "preconditions": {"uid": launch.handle["uid"]}}
    assert admin.ask("DELETE", path, vouched).is_success
    assert world.launcher.probe(epoch, launch).state is ProcessState.GONE


def test_while_the_api_server_is_away_nothing_is_proved_and_afterwards_all_is_as_before(
    world: PodWorld, epoch: Epoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = world.start(epoch)
    monkeypatch.setattr("airflow_streaming.launch.clusters.rest.TIMEOUT", 1.0)
    world.server.suspend()
    try:
        fresh = KubernetesLauncher(login=world.login, clock=lambda: 1e9)
        assert fresh.probe(epoch, launch).state is ProcessState.UNSEEN
        assert fresh.kill(epoch, launch).state is ProcessState.UNSEEN
        assert fresh.find(epoch) is None
    finally:
        world.server.resume()

    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING
    assert world.launcher.find(epoch) is not None


def test_one_list_answers_for_all_streams_of_a_namespace(
    world: PodWorld, epoch: Epoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = world.start(epoch)
    name = launch.handle["pod"]
    until(lambda: world.pods().statuses("spark-role=driver").get(name) == "Running", "the pod")
    watched = [KubernetesLauncher(login=world.login, clock=lambda: 5.0) for _ in range(50)]
    forget_lists(monkeypatch)
    before = len(world.asked)

    states = {launcher.probe(epoch, launch).state for launcher in watched}

    assert states == {ProcessState.RUNNING}
    # The states, and the identities, which are asked for more rarely.
    assert len(world.asked) - before == 2


def test_airflow_has_the_documented_rights_and_no_more(world: PodWorld, epoch: Epoch) -> None:
    world.start(epoch)
    airflow = world.pods()

    assert airflow.pods("spark-role=driver")
    assert airflow.ask("GET", "secrets").status == 403
    assert airflow.ask("GET", f"secrets/{pod_name(epoch)}").status == 403
    assert airflow.ask("GET", "serviceaccounts").status == 403
    other = Namespace(replace(world.server.place(), namespace="default"), world.login)
    with pytest.raises(Unreachable):
        other.pods("")


def test_a_user_without_rights_sees_nothing_and_proves_nothing(
    world: PodWorld, epoch: Epoch
) -> None:
    launch = world.start(epoch)

    def wrong(place: Place) -> Credentials:
        return replace(world.login(place), token="nobody")

    assert KubernetesLauncher(login=wrong).probe(epoch, launch).state is ProcessState.UNSEEN
    assert KubernetesLauncher(login=wrong).find(epoch) is None


def make_strangers_pod(world: PodWorld, epoch: Epoch, name: str) -> str:
    """Let another user create a pod with the labels of a driver; return its uid."""
    metadata = {"name": name, "labels": {**labels_of(epoch), "spark-role": "driver"}}
    spec = {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    answer = world.server.namespace("admin").ask("POST", "pods", body)
    assert answer.is_success, answer
    uid = str(answer.body["metadata"]["uid"])
    until(lambda: uid in world.kubelet.alive(), "the stranger's pod to run")
    return uid


def uids(world: PodWorld) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.pods().pods("spark-role=driver")}


def long_ago(launch: Launch) -> Launch:
    """Return the launch of a driver that has run for an hour: clocks differ by no more than minutes."""
    return replace(launch, launched_at=launch.launched_at - timedelta(hours=1))


@pytest.mark.parametrize("has_our_name", [False, True])
def test_a_strangers_pod_neither_keeps_a_dead_stream_down_nor_is_deleted(
    world: PodWorld, epoch: Epoch, monkeypatch: pytest.MonkeyPatch, has_our_name: bool
) -> None:
    launch = long_ago(world.start(epoch))
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE
    name = pod_name(epoch) if has_our_name else f"stranger-{epoch.mark[:8]}"
    theirs = make_strangers_pod(world, epoch, name)
    forget_lists(monkeypatch)
    monkeypatch.setattr(kubernetes, "_IDENTITIES", SharedTables())

    assert world.launcher.probe(epoch, launch).state is ProcessState.GONE
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE
    assert world.launcher.logs(epoch, launch, None, 99).tail is None
    if not has_our_name:
        assert world.launcher.find(epoch) is None
    assert theirs in uids(world)
    assert theirs in world.kubelet.alive()


def test_our_pod_is_seen_and_killed_beside_a_strangers_with_its_labels(
    world: PodWorld, epoch: Epoch
) -> None:
    launch = long_ago(world.start(epoch))
    theirs = make_strangers_pod(world, epoch, f"stranger-{epoch.mark[:8]}")

    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE
    assert launch.handle["uid"] not in uids(world)
    assert theirs in world.kubelet.alive()


@pytest.mark.parametrize("is_alive", [True, False], ids=["ours lives", "ours is gone"])
def test_a_kill_whose_record_names_the_pod_of_another_stream_deletes_only_ours(
    world: PodWorld, epoch: Epoch, is_alive: bool
) -> None:
    launch = world.start(epoch)
    other = contract.make_contract_epoch(world.launcher)
    theirs = world.launcher.launch(world.request(other))
    until(lambda: theirs.handle["uid"] in world.kubelet.alive(), "the other stream's pod to run")
    if not is_alive:
        assert world.launcher.kill(epoch, launch).state is ProcessState.GONE

    killed = world.launcher.kill(epoch, replace(launch, handle=theirs.handle))

    assert killed.state is ProcessState.GONE
    assert launch.handle["uid"] not in uids(world)
    assert theirs.handle["uid"] in uids(world)
    assert theirs.handle["uid"] in world.kubelet.alive()
    assert world.launcher.kill(other, theirs).state is ProcessState.GONE


def test_the_api_server_keeps_a_pod_that_took_the_name_between_look_and_deletion(
    world: PodWorld, epoch: Epoch
) -> None:
    launch = long_ago(world.start(epoch))
    (ours,) = [
        pod
        for pod in world.pods().pods("spark-role=driver")
        if pod["metadata"]["uid"] == launch.handle["uid"]
    ]
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE
    theirs = make_strangers_pod(world, epoch, pod_name(epoch))

    world.launcher._delete(epoch, ours)

    assert theirs in uids(world)


def test_a_pod_with_our_name_made_at_the_launch_counts_as_the_drivers(
    world: PodWorld, epoch: Epoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = world.start(epoch)
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE
    make_strangers_pod(world, epoch, pod_name(epoch))
    forget_lists(monkeypatch)
    monkeypatch.setattr(kubernetes, "_IDENTITIES", SharedTables())

    # Its uid may be a damaged record's: the stream waits, and no second driver starts.
    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING
