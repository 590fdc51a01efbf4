"""What every launcher keeps, tried on the fake, on processes of this host and behind a broker and on clusters."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import psutil
import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.launch.clusters.standalone import StandaloneLauncher
from airflow_streaming.launch.clusters.yarn import YarnLauncher
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.port import ClusterApplication, Heartbeat, Launcher, LaunchRequest
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch, LaunchCause
from tests.fakes import FAKE_HOST, FakeLauncher
from tests.patience import until
from tests.unit.launch.brokered import BrokeredLauncher
from tests.unit.launch.jobs_launcher import JobsLauncher
from tests.unit.launch.played_jobs import JobService
from tests.unit.launch.recorded_master import RecordedMaster
from tests.unit.launch.recorded_yarn import Cluster, ResourceManager

SUBMIT = """#!/bin/sh
echo "A line of the driver."
"$PYTHON" -S -E -c 'import time; time.sleep(600)' "$@" &
wait
"""
"""Stands in for spark-submit: a leader with a child, both with the token among their arguments."""


class World(Protocol):
    """A launcher, and what can happen to its drivers."""

    launcher: Launcher

    def start(self, epoch: Epoch) -> Launch: ...
    def lose_all(self, launch: Launch) -> None: ...


class HostWorld(World, Protocol):
    """A launcher whose drivers are processes of a host."""

    def suspend(self, launch: Launch) -> None: ...
    def lose_leader(self, launch: Launch) -> None: ...
    def seen_from(self, host: Host, booted: datetime | None = None) -> Launcher: ...


@dataclass
class FakeWorld:
    folder: Path
    launcher: FakeLauncher = field(default_factory=FakeLauncher)

    def start(self, epoch: Epoch) -> Launch:
        return self.launcher.launch(request_for(epoch, self.folder, "spark-submit"))

    def suspend(self, launch: Launch) -> None:
        self.launcher.suspend(launch.token)

    def lose_leader(self, launch: Launch) -> None:
        self.launcher.lose_leader(launch.token)

    def lose_all(self, launch: Launch) -> None:
        self.launcher.end(launch.token)

    def seen_from(self, host: Host, booted: datetime | None = None) -> Launcher:
        return self.launcher.seen_from(host, booted)


@dataclass
class LocalWorld:
    folder: Path
    # As outside a container, wherever the tests run, so that a reboot can be believed.
    launcher: LocalLauncher = field(default_factory=lambda: LocalLauncher(FAKE_HOST))

    def start(self, epoch: Epoch) -> Launch:
        submit = self.folder / "spark-submit"
        submit.write_text(SUBMIT)
        submit.chmod(0o700)
        launch = self.launcher.launch(request_for(epoch, self.folder, str(submit)))
        wait_until(lambda: self._child_carries_token(launch))
        return launch

    def suspend(self, launch: Launch) -> None:
        leader = psutil.Process(self._leader(launch))
        leader.suspend()
        wait_until(lambda: leader.status() == psutil.STATUS_STOPPED)

    def lose_leader(self, launch: Launch) -> None:
        leader = psutil.Process(self._leader(launch))
        leader.kill()
        wait_until(lambda: _has_ended(leader))

    def lose_all(self, launch: Launch) -> None:
        leader = psutil.Process(self._leader(launch))
        group = [leader, *leader.children(recursive=True)]
        os.killpg(leader.pid, signal.SIGKILL)
        wait_until(lambda: all(map(_has_ended, group)))

    def seen_from(self, host: Host, booted: datetime | None = None) -> Launcher:
        return type(self.launcher)(host, lambda: booted)

    def _leader(self, launch: Launch) -> int:
        return int(launch.handle["pid"])

    def _child_carries_token(self, launch: Launch) -> bool:
        children = psutil.Process(self._leader(launch)).children()
        return any("time.sleep" in " ".join(child.cmdline()) for child in children)


@dataclass
class BrokeredWorld(LocalWorld):
    """The same processes, started and seen by a launcher from outside the package."""

    launcher: BrokeredLauncher = field(default_factory=lambda: BrokeredLauncher(FAKE_HOST))  # type: ignore[assignment]

    def _leader(self, launch: Launch) -> int:
        return int(launch.handle["session"])


@dataclass
class StandaloneWorld:
    """A master that is played with recorded answers; its drivers are entries of it."""

    folder: Path
    master: RecordedMaster = field(default_factory=RecordedMaster)

    def __post_init__(self) -> None:
        self.launcher = StandaloneLauncher(self.master.url, pause=lambda _: None)

    def start(self, epoch: Epoch) -> Launch:
        return self.launcher.launch(cluster_request_for(epoch, self.folder))

    def lose_all(self, launch: Launch) -> None:
        self.master.end(launch.handle["submission"])

    def close(self) -> None:
        self.master.close()


@dataclass
class YarnWorld:
    """Two ResourceManagers, the first a standby, and a NodeManager, played with recorded answers."""

    folder: Path
    cluster: Cluster = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        self.managers = [ResourceManager(self.cluster), ResourceManager(self.cluster)]
        self.managers[0].standby = "redirect"
        self.launcher = self.made()

    def made(self, **options: Any) -> YarnLauncher:
        """Return a launcher of this cluster."""
        place = "yarn://" + ",".join(manager.url for manager in self.managers)
        return YarnLauncher(place, run=self.cluster.run, pause=lambda _: None, **options)

    def request(self, epoch: Epoch, **changes: Any) -> LaunchRequest:
        properties = self.folder / "logs" / f"{epoch.token}.conf"
        command = ("spark-submit", "--properties-file", str(properties), "main.py")
        return replace(cluster_request_for(epoch, self.folder, **changes), command=command)

    def start(self, epoch: Epoch) -> Launch:
        return self.launcher.launch(self.request(epoch))

    def lose_all(self, launch: Launch) -> None:
        self.cluster.end(launch.handle["application"])

    def close(self) -> None:
        self.cluster.node.close()
        for manager in self.managers:
            manager.close()


@dataclass
class JobsWorld:
    """A job service, and the launcher for it that the documentation shows."""

    folder: Path
    service: JobService = field(default_factory=JobService)

    def __post_init__(self) -> None:
        self.launcher = JobsLauncher(self.service.url, "planted-token")

    def start(self, epoch: Epoch) -> Launch:
        return self.launcher.launch(request_for(epoch, self.folder, "spark-submit"))

    def lose_all(self, launch: Launch) -> None:
        self.service.states[launch.handle["job"]] = "failed"

    def close(self) -> None:
        self.service.close()


def cluster_request_for(epoch: Epoch, folder: Path, **changes: Any) -> LaunchRequest:
    application = ClusterApplication(
        master="spark://127.0.0.1:7077",
        main=str(folder / "main.py"),
        archive=str(folder / "airflow_streaming.zip"),
        arguments=("--stream", "orders", "--token", epoch.mark),
        spark_version="4.3.0",
        **changes,
    )
    return LaunchRequest(
        epoch=epoch, command=(), environment={}, log=folder / "logs", application=application
    )


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def request_for(epoch: Epoch, folder: Path, submit: str) -> LaunchRequest:
    return LaunchRequest(
        epoch=epoch,
        command=(submit, "--name", "orders", "main.py", "--token", epoch.mark),
        environment={"PATH": os.environ["PATH"], "PYTHON": sys.executable},
        log=folder / "logs" / f"{epoch.number}.log",
    )


def wait_until(condition: Callable[[], bool]) -> None:
    until(condition, "What the processes are to do", every=0.01)


WORLDS: Final[dict[str, Any]] = {
    "fake": FakeWorld,
    "local": LocalWorld,
    "brokered": BrokeredWorld,
    "standalone": StandaloneWorld,
    "yarn": YarnWorld,
    "jobs": JobsWorld,
}
OF_HOSTS: Final = ("fake", "local", "brokered")
BY_TOKEN: Final = (*OF_HOSTS, "yarn", "jobs")
"""Launchers that find a driver whose launch was not recorded."""

on_hosts = pytest.mark.parametrize("world", OF_HOSTS, indirect=True)
by_token = pytest.mark.parametrize("world", BY_TOKEN, indirect=True)


@pytest.fixture(params=list(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World = WORLDS[request.param](tmp_path)
    yield made
    if isinstance(made, (StandaloneWorld, YarnWorld, JobsWorld)):
        made.close()


@pytest.fixture
def epoch(world: World) -> Iterator[Epoch]:
    epoch = make_contract_epoch(world.launcher)
    yield epoch
    world.launcher.kill(epoch, None)


def make_contract_epoch(launcher: Launcher) -> Epoch:
    return Epoch(
        number=7,
        stream="orders",
        deployment=1,
        token=uuid.uuid4().hex,
        host=launcher.host(),
        launcher=launcher.kind,
        cause=LaunchCause.FIRST,
        reason="The first launch.",
        by="test",
        created_at=datetime.now(UTC),
    )


def test_a_launched_driver_is_running_and_recorded(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)

    assert (launch.epoch, launch.token, launch.host) == (7, epoch.token, world.launcher.host())
    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING


@by_token
def test_a_driver_is_found_by_its_token(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)

    found = world.launcher.find(epoch)

    assert found is not None
    assert (found.epoch, found.token, found.host) == (7, epoch.token, launch.host)
    assert found.driver == launch.driver
    assert world.launcher.probe(epoch, found).state is ProcessState.RUNNING
    assert world.launcher.probe(epoch, None).state is ProcessState.RUNNING


@on_hosts
def test_launching_does_not_wait_for_the_driver(
    world: HostWorld, epoch: Epoch, tmp_path: Path
) -> None:
    (tmp_path / "spark-submit").write_text(SUBMIT)
    (tmp_path / "spark-submit").chmod(0o700)

    launch = world.launcher.launch(request_for(epoch, tmp_path, str(tmp_path / "spark-submit")))

    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING


@by_token
def test_a_driver_that_was_never_started_is_gone(world: World, epoch: Epoch) -> None:
    assert world.launcher.find(epoch) is None
    assert world.launcher.probe(epoch, None).state is ProcessState.GONE


def test_a_killed_driver_is_proved_gone(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)

    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE
    assert world.launcher.probe(epoch, launch).state is ProcessState.GONE
    assert world.launcher.find(epoch) is None


@by_token
def test_a_driver_is_killed_by_its_token(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)

    assert world.launcher.kill(epoch, None).state is ProcessState.GONE
    assert world.launcher.probe(epoch, launch).state is ProcessState.GONE


@pytest.mark.parametrize("world", ["standalone"], indirect=True)
def test_a_driver_that_cannot_be_asked_for_is_unseen(world: World, epoch: Epoch) -> None:
    world.start(epoch)

    assert world.launcher.find(epoch) is None
    assert world.launcher.probe(epoch, None).state is ProcessState.UNSEEN
    assert world.launcher.kill(epoch, None).state is ProcessState.UNSEEN


def test_killing_twice_is_harmless(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)
    world.launcher.kill(epoch, launch)

    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE


@on_hosts
def test_a_suspended_driver_is_suspended_and_can_be_killed(world: HostWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)
    world.suspend(launch)

    assert world.launcher.probe(epoch, launch).state is ProcessState.SUSPENDED
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE


@on_hosts
def test_a_driver_that_lost_its_leader_is_not_gone_yet(world: HostWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)
    world.lose_leader(launch)

    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING
    assert world.launcher.find(epoch) is not None
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE


def test_a_driver_that_ended_is_gone(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)
    world.lose_all(launch)

    wait_until(lambda: world.launcher.probe(epoch, launch).state is ProcessState.GONE)


@on_hosts
@pytest.mark.parametrize(
    "elsewhere",
    [
        pytest.param(Host(name="worker-2", machine="machine-2", boot="boot-2"), id="another_host"),
        pytest.param(replace(FAKE_HOST, pid_space="pid:[4026532001]"), id="a_container_of_it"),
        pytest.param(replace(FAKE_HOST, name="worker-2", boot="boot-2"), id="a_clone_of_it"),
        pytest.param(
            replace(FAKE_HOST, pid_space="pid:[4026532001]", boot="boot-2"),
            id="a_container_with_its_name",
        ),
    ],
)
def test_from_another_host_a_driver_is_unseen_and_left_alone(
    world: HostWorld, epoch: Epoch, elsewhere: Host
) -> None:
    launch = world.start(epoch)
    other = world.seen_from(elsewhere)

    assert other.probe(epoch, launch).state is ProcessState.UNSEEN
    assert other.probe(epoch, None).state is ProcessState.UNSEEN
    assert other.find(epoch) is None
    assert other.kill(epoch, launch).state is ProcessState.UNSEEN
    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING


@on_hosts
@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "not_recorded"])
def test_after_a_reboot_a_driver_is_gone(world: HostWorld, epoch: Epoch, is_recorded: bool) -> None:
    launch = world.start(epoch)
    rebooted = world.seen_from(replace(FAKE_HOST, boot="boot-2"), booted=later(hours=1))

    process = rebooted.probe(epoch, launch if is_recorded else None, lambda: later(minutes=30))

    assert process.state is ProcessState.GONE
    assert "rebooted" in process.detail


def later(**time: float) -> datetime:
    return datetime.now(UTC) + timedelta(**time)


def unreadable() -> datetime | None:
    raise RecordError("status.json is damaged.")


CLONES: Final[Mapping[str, tuple[datetime | None, Heartbeat | None]]] = {
    "launched after the boot": (later(hours=-1), lambda: None),
    "beating after the boot": (later(hours=1), lambda: later(hours=2)),
    "beating as it was booted": (later(hours=1), lambda: later(hours=1)),
    "heartbeat unreadable": (later(hours=1), unreadable),
    "heartbeat not asked": (later(hours=1), None),
    "boot unknown": (None, lambda: None),
}
"""When a machine was booted that may be the driver's, and what it has of a heartbeat."""


@on_hosts
@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "not_recorded"])
def test_a_clone_of_the_machine_proves_no_death(
    world: HostWorld, epoch: Epoch, is_recorded: bool
) -> None:
    launch = world.start(epoch)
    known = launch if is_recorded else None

    for case, (booted, heartbeat) in CLONES.items():
        clone = world.seen_from(replace(FAKE_HOST, boot="boot-2"), booted)
        assert clone.probe(epoch, known, heartbeat).state is ProcessState.UNSEEN, case
        assert clone.kill(epoch, known, heartbeat).state is ProcessState.UNSEEN, case
        assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING, case


@on_hosts
@pytest.mark.parametrize("cards", [("card-2",), ()], ids=["other_cards", "unknown"])
def test_a_clone_that_booted_after_the_launch_proves_no_death(
    world: HostWorld, epoch: Epoch, cards: tuple[str, ...]
) -> None:
    launch = world.start(epoch)
    there = replace(FAKE_HOST, boot="boot-2", cards=cards)
    clone = world.seen_from(there, booted=later(hours=1))

    assert clone.probe(epoch, launch, lambda: None).state is ProcessState.UNSEEN
    assert clone.kill(epoch, launch, lambda: None).state is ProcessState.UNSEEN
    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING


@by_token
@pytest.mark.parametrize(
    "handle",
    [
        pytest.param({}, id="empty"),
        pytest.param({"pid": "1", "started": "0", "session": "1", "key": "1"}, id="forged"),
        pytest.param({"pid": "-1", "started": "nan", "session": "?"}, id="impossible"),
        pytest.param({"pid": "9" * 40, "started": "x"}, id="no_number"),
        pytest.param({"pid": "0", "started": "0", "session": "0"}, id="zero"),
        pytest.param({"pid": str(2**31), "started": "1", "session": str(2**31)}, id="too_large"),
    ],
)
def test_a_damaged_handle_changes_no_answer(
    world: World, epoch: Epoch, handle: dict[str, str]
) -> None:
    damaged = replace(world.start(epoch), handle=handle)

    assert world.launcher.probe(epoch, damaged).state is ProcessState.RUNNING
    assert world.launcher.kill(epoch, damaged).state is ProcessState.GONE
    assert world.launcher.probe(epoch, damaged).state is ProcessState.GONE


def test_the_record_of_a_launch_survives_the_home(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)

    assert launch.driver
    assert Launch.from_bytes(launch.to_bytes()) == launch


@on_hosts
def test_the_end_of_the_output_is_shown(world: HostWorld, epoch: Epoch, tmp_path: Path) -> None:
    launch, file = world.start(epoch), tmp_path / "logs" / f"{epoch.number}.log"

    wait_until(lambda: world.launcher.logs(epoch, launch, file, 8).tail == b"driver.\n")


def test_a_forged_place_of_the_output_is_not_opened(
    world: World, epoch: Epoch, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("of another user")
    launch = replace(world.start(epoch), log=str(secret))

    shown = world.launcher.logs(epoch, launch, tmp_path / "logs" / f"{epoch.number}.log", 1000)

    assert b"another user" not in (shown.tail or b"")


@on_hosts
def test_output_that_is_not_there_is_an_answer(
    world: HostWorld, epoch: Epoch, tmp_path: Path
) -> None:
    launch, absent = world.start(epoch), tmp_path / "absent.log"

    shown = world.launcher.logs(epoch, replace(launch, log=str(absent)), absent, 1000)

    assert isinstance(shown.place, str)
    assert shown.tail is None or isinstance(world, FakeWorld)


@on_hosts
def test_cpu_time_of_a_driver_is_told(world: HostWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)

    cpu_seconds = world.launcher.probe(epoch, launch).cpu_seconds

    assert cpu_seconds is not None
    assert cpu_seconds >= 0
