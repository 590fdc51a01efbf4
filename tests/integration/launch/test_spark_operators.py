"""Resources of the Spark operators on a real API server: the contract, the rights, one restarter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch.clusters.kubernetes_api import Place
from airflow_streaming.launch.clusters.pods import pod_name
from airflow_streaming.launch.clusters.spark_operators import (
    OPERATORS,
    OperatorLauncher,
    resource_of,
)
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Epoch, Launch
from tests.integration.launch.test_kubernetes import PodWorld
from tests.integration.servers.kubernetes import ApiServer, api_server, forget_lists
from tests.integration.servers.operators import PlayedOperator, install
from tests.patience import PATIENCE, until
from tests.unit.launch import test_port_contract as contract


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("cluster")) as running:
        install(running)
        yield running


class OperatorWorld(PodWorld):
    """Resources that a played operator makes pods from; a played kubelet runs those."""

    def __init__(self, server: ApiServer, folder: Path, kind: str) -> None:
        super().__init__(server, folder)
        self.kind = kind
        self.operator = PlayedOperator(server, kind)
        self.launcher: Any = OperatorLauncher(kind, str(server.place()), login=self.login)

    def lose_all(self, launch: Launch) -> None:
        until(lambda: self.operator.made, "the pod")
        super().lose_all(launch)

    def resource(self, epoch: Epoch) -> dict[str, Any] | None:
        named = [
            one for one in self.operator.resources() if one["metadata"]["name"] == pod_name(epoch)
        ]
        return named[0] if named else None

    def pod(self, epoch: Epoch) -> bool:
        return self.pods().ask("GET", f"pods/{pod_name(epoch)}").is_success

    def close(self) -> None:
        self.operator.close()
        self.kubelet.close()


@pytest.fixture(params=list(OPERATORS))
def world(
    request: pytest.FixtureRequest,
    server: ApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[OperatorWorld]:
    forget_lists(monkeypatch)
    made = OperatorWorld(server, tmp_path, request.param)
    yield made
    made.close()


@pytest.fixture
def epoch(world: OperatorWorld) -> Iterator[Epoch]:
    epoch = contract.make_contract_epoch(world.launcher)
    yield epoch
    world.kubelet.is_lost = world.operator.is_away = False
    until(
        lambda: world.launcher.kill(epoch, None).state is ProcessState.GONE, "the end of the driver"
    )
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
def test_resources_keep_the_contract_of_launchers(
    keeps: Callable[..., None], world: OperatorWorld, epoch: Epoch
) -> None:
    keeps(world, epoch)


def test_a_damaged_handle_changes_no_answer(world: OperatorWorld, epoch: Epoch) -> None:
    contract.test_a_damaged_handle_changes_no_answer(world, epoch, {"pod": "another", "uid": "1"})


def test_nothing_of_a_resource_is_dropped_and_no_secret_is_in_it(
    world: OperatorWorld, epoch: Epoch
) -> None:
    request = world.request(
        epoch,
        secret_conf={"spark.my.password": "planted-1"},
        environment={"API": "planted-2"},
        jars=("a.jar",),
        image="spark:4.3.0",
    )
    assert request.application is not None

    launch = world.launcher.launch(request)

    place = Place.parse(epoch.host.name)
    sent = resource_of(OPERATORS[world.kind], epoch, request.application, place)
    stored = world.resource(epoch)
    assert stored is not None
    assert stored["spec"] == sent["spec"]
    assert "planted" not in str(stored)
    (secret,) = world.secrets(epoch)
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("SparkApplication", launch.handle["resource"])
    assert owner["uid"] == stored["metadata"]["uid"]


def test_the_api_server_refuses_a_second_resource_of_an_epoch(
    world: OperatorWorld, epoch: Epoch
) -> None:
    first, second = world.start(epoch), world.start(epoch)

    assert first.handle == second.handle
    until(lambda: world.pod(epoch), "the pod")
    assert len(world.pods().pods(f"airflow-streaming/token={epoch.mark}")) == 1


def test_while_the_operator_is_away_a_pod_may_still_come(
    world: OperatorWorld, epoch: Epoch
) -> None:
    world.operator.is_away = True
    launch = world.start(epoch)

    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING
    assert not world.pod(epoch)
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE
    world.operator.is_away = False
    assert world.resource(epoch) is None, "no operator can make a pod of it any more"


def test_a_pod_outlives_its_resource(world: OperatorWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)
    until(lambda: launch.handle["pod"] in world.kubelet.ran, "the pod's start")
    world.operator.is_away = True
    admin = world.server.namespace("admin")
    path = f"sparkapplications/{pod_name(epoch)}"

    assert admin.ask("DELETE", path, api=OPERATORS[world.kind].api).is_success

    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING
    assert world.launcher.find(epoch) is not None
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE


def test_a_pod_that_a_slow_operator_makes_after_the_kill_never_starts(
    world: OperatorWorld, epoch: Epoch
) -> None:
    submit = world.operator.submit
    has_read, may_submit, has_submitted = (threading.Event() for _ in range(3))

    def submit_slowly(resource: Mapping[str, Any]) -> None:
        if resource["metadata"]["name"] == pod_name(epoch):
            has_read.set()
            may_submit.wait(PATIENCE)
        submit(resource)
        if may_submit.is_set():
            has_submitted.set()

    world.operator.submit = submit_slowly
    launch = world.start(epoch)
    assert has_read.wait(PATIENCE)

    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE
    may_submit.set()

    assert has_submitted.wait(PATIENCE)
    pod, kubelet = launch.handle["pod"], world.kubelet
    # Apache's operator deletes it at its next look.
    until(
        lambda: pod in {*kubelet.waiting, *kubelet.ran} or not world.pod(epoch),
        "the pod that came late",
    )
    assert pod not in kubelet.ran


def test_a_resource_may_go_before_its_pod_has_ended(world: OperatorWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)
    until(lambda: launch.handle["pod"] in world.kubelet.ran, "the pod's start")
    world.kubelet.is_lost = True
    path = f"sparkapplications/{pod_name(epoch)}"
    world.server.namespace("admin").ask("DELETE", path, api=OPERATORS[world.kind].api)
    until(lambda: world.resource(epoch) is None, "the end of the resource")

    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING


def test_a_pod_that_was_deleted_is_gone_and_no_other_follows(
    world: OperatorWorld, epoch: Epoch
) -> None:
    launch = world.start(epoch)
    until(lambda: launch.handle["pod"] in world.kubelet.ran, "the pod's start")
    world.server.namespace("admin").ask("DELETE", f"pods/{launch.handle['pod']}")

    until(lambda: world.launcher.probe(epoch, launch).state is ProcessState.GONE, "the proof")

    assert world.kubelet.ran.count(launch.handle["pod"]) == 1
    assert not world.pod(epoch)


def test_without_the_resources_definition_nothing_was_started(
    world: OperatorWorld, epoch: Epoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = replace(OPERATORS[world.kind], api="apis/absent.example.org/v1")
    monkeypatch.setattr(world.launcher, "_operator", absent)

    with pytest.raises(LaunchError):
        world.start(epoch)

    assert world.secrets(epoch) == []
    monkeypatch.undo()


def test_airflow_may_not_list_or_change_resources(world: OperatorWorld, epoch: Epoch) -> None:
    world.start(epoch)
    airflow, api = world.pods(), OPERATORS[world.kind].api

    assert airflow.ask("GET", f"sparkapplications/{pod_name(epoch)}", api=api).is_success
    assert airflow.ask("GET", "sparkapplications", api=api).status == 403
    patched = airflow.ask("PATCH", f"sparkapplications/{pod_name(epoch)}", {}, api=api)
    assert patched.status == 403
