"""No launcher asks the cluster of a record that the process has not been allowed to ask."""

from __future__ import annotations

import inspect
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch import registry
from airflow_streaming.launch.cluster_policy import ask_listed, ask_recorded
from airflow_streaming.launch.port import EndWatcher, Launcher, LaunchRequest
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch
from airflow_streaming.model.spark.launchers import (
    APACHE_OPERATOR,
    KUBEFLOW_OPERATOR,
    KUBERNETES,
    LOCAL,
    OWN_LAUNCHERS,
    STANDALONE,
    YARN,
)
from tests.conftest import REPOSITORY
from tests.unit.home.make import make_epoch, make_launch
from tests.unit.launch.jobs_launcher import JobsLauncher

OTHERS = "jobs"
"""The launcher of docs/launcher-example.md, which another package would register."""
PLACES = {
    STANDALONE: "spark://{}",
    KUBERNETES: "k8s://http://{}/streams",
    YARN: "yarn://http://{}",
    APACHE_OPERATOR: "k8s://http://{}/streams",
    KUBEFLOW_OPERATOR: "k8s://http://{}/streams",
    OTHERS: "http://{}",
}


@dataclass
class Listening:
    """A port that nobody has named to this process; it counts connections and answers nothing."""

    socket: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    connections: int = 0

    def __post_init__(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.socket.getsockname()[1]}"

    def _accept(self) -> None:
        try:
            while True:
                client, _ = self.socket.accept()
                self.connections += 1
                client.close()
        except OSError:
            return


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Listening]:
    found = Listening()
    config = tmp_path / "kubeconfig"
    config.write_text(
        f"""{{"current-context": "c", "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}],
        "clusters": [{{"name": "c", "cluster": {{"server": "http://{found.address}"}}}}],
        "users": [{{"name": "u", "user": {{"token": "secret"}}}}]}}"""
    )
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.setenv("JOBS_URL", f"http://{found.address}")
    monkeypatch.setenv("JOBS_TOKEN", "secret")
    monkeypatch.setitem(registry._OWN, OTHERS, lambda *_: JobsLauncher())
    yield found
    found.socket.close()


def forged(kind: str, listening: Listening) -> tuple[Epoch, Launch]:
    host = Host(name=PLACES[kind].format(listening.address))
    handle = {"submission": "driver-1", "application": "application_1_1", "pod": "p"}
    return make_epoch(launcher=kind, host=host), make_launch(host=host, handle=handle)


CALLS: dict[str, Callable[[Any, Epoch, Launch], Any]] = {
    "launch": lambda launcher, epoch, _: launcher.launch(
        LaunchRequest(epoch=epoch, command=("true",), environment={}, log=Path("/tmp/x.log"))
    ),
    "find": lambda launcher, epoch, _: launcher.find(epoch),
    "probe": lambda launcher, epoch, launch: launcher.probe(epoch, launch),
    "kill": lambda launcher, epoch, launch: launcher.kill(epoch, launch),
    "clean_up": lambda launcher, epoch, launch: launcher.clean_up(epoch, launch),
    "logs": lambda launcher, epoch, launch: launcher.logs(epoch, launch, None, 100),
    "open_end": lambda launcher, epoch, launch: launcher.open_end(epoch, launch),
}


def test_every_method_of_the_port_that_takes_an_epoch_is_tried_here() -> None:
    methods = {
        name
        for port in (Launcher, EndWatcher)
        for name, _ in inspect.getmembers(port, inspect.isfunction)
        if not name.startswith("_")
    }

    assert methods - {"host"} == set(CALLS)
    assert set(PLACES) - {OTHERS} == set(OWN_LAUNCHERS) - {LOCAL}


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("kind", PLACES)
def test_no_cluster_is_asked_on_the_word_of_a_record(
    listening: Listening, kind: str, method: str
) -> None:
    epoch, launch = forged(kind, listening)
    for launcher in (open_launcher(), open_launcher(policy=ask_listed(["spark://own:6066"]))):
        try:
            CALLS[method](launcher, epoch, launch)
        except LaunchError:
            assert method == "launch"

    assert listening.connections == 0


@pytest.mark.parametrize("kind", PLACES)
def test_a_refused_cluster_is_named_and_proves_nothing(listening: Listening, kind: str) -> None:
    epoch, launch = forged(kind, listening)

    seen = open_launcher().probe(epoch, launch)

    assert (seen.state, seen.was_asked) == (ProcessState.UNSEEN, False)
    assert epoch.host.name in seen.detail
    assert epoch.host.name in open_launcher().logs(epoch, launch, None, 9).trouble


@pytest.mark.parametrize("kind", [kind for kind in PLACES if kind != OTHERS])
def test_a_listed_cluster_is_asked(listening: Listening, kind: str) -> None:
    epoch, launch = forged(kind, listening)
    for policy in (ask_recorded, ask_listed([epoch.host.name])):
        before = listening.connections
        assert open_launcher(policy=policy).probe(epoch, launch).was_asked
        assert listening.connections > before


def test_a_driver_of_this_host_needs_no_list() -> None:
    assert open_launcher().probe(make_epoch(), None).was_asked


def test_a_launch_record_of_another_driver_is_not_used(listening: Listening) -> None:
    epoch, launch = forged(STANDALONE, listening)
    launcher = open_launcher(policy=ask_recorded)

    seen = launcher.probe(epoch, replace(launch, token="of another"))

    assert (seen.state, listening.connections) == (ProcessState.UNSEEN, 0)


def test_the_api_server_opens_launchers_in_one_place() -> None:
    plugins = REPOSITORY / "airflow_streaming/plugins"
    found = {
        str(file.relative_to(plugins))
        for file in plugins.rglob("*.py")
        if "open_launcher" in (text := file.read_text()) or "launch.clusters" in text
    }

    assert found == {"access/drivers.py"}
