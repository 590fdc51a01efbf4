"""What every launcher keeps, tried on the fake and on real processes of this host."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from airflow_streaming.core.epoch import Epoch, Host, Launch, LaunchCause
from airflow_streaming.core.observation import ProcessState
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.port import Launcher, LaunchRequest
from tests.fakes import FAKE_HOST, FakeLauncher

SUBMIT = """#!/bin/sh
"$PYTHON" -S -E -c 'import time; time.sleep(600)' "$@" &
wait
"""
"""Stands in for spark-submit: a leader with a child, both with the token among their arguments."""


class World(Protocol):
    """A launcher, and what can happen to its drivers."""

    launcher: Launcher

    def start(self, epoch: Epoch) -> Launch: ...
    def suspend(self, launch: Launch) -> None: ...
    def lose_leader(self, launch: Launch) -> None: ...
    def lose_all(self, launch: Launch) -> None: ...
    def seen_from(self, host: Host) -> Launcher: ...


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

    def seen_from(self, host: Host) -> Launcher:
        return self.launcher.seen_from(host)


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
        os.kill(launch.pid, signal.SIGSTOP)
        wait_until(lambda: psutil.Process(launch.pid).status() == psutil.STATUS_STOPPED)

    def lose_leader(self, launch: Launch) -> None:
        os.kill(launch.pid, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(launch.pid))

    def lose_all(self, launch: Launch) -> None:
        os.killpg(launch.pid, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(launch.pid))

    def seen_from(self, host: Host) -> Launcher:
        return LocalLauncher(host)

    def _child_carries_token(self, launch: Launch) -> bool:
        children = psutil.Process(launch.pid).children()
        return any("time.sleep" in " ".join(child.cmdline()) for child in children)


def request_for(epoch: Epoch, folder: Path, submit: str) -> LaunchRequest:
    return LaunchRequest(
        epoch=epoch,
        command=(submit, "--name", "orders", "main.py", "--token", epoch.token),
        environment={"PATH": os.environ["PATH"], "PYTHON": sys.executable},
        log=folder / "logs" / f"{epoch.number}.log",
    )


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "The condition did not come true in time."
        time.sleep(0.01)


@pytest.fixture(params=[FakeWorld, LocalWorld], ids=["fake", "local"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    made: World = request.param(tmp_path)
    return made


@pytest.fixture
def epoch(world: World) -> Iterator[Epoch]:
    epoch = Epoch(
        number=7,
        stream="orders",
        deployment=1,
        token=uuid.uuid4().hex,
        host=world.launcher.host(),
        launcher=world.launcher.kind,
        cause=LaunchCause.FIRST,
        reason="The first launch.",
        by="test",
        created_at=datetime.now(UTC),
    )
    yield epoch
    world.launcher.kill(epoch, None)


def test_a_launched_driver_is_running_and_recorded(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)

    assert (launch.epoch, launch.token, launch.host) == (7, epoch.token, world.launcher.host())
    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING


def test_a_driver_is_found_by_its_token(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)

    found = world.launcher.find(epoch)

    assert found is not None
    assert (found.pid, found.epoch, found.log) == (launch.pid, 7, launch.log)
    assert found.started == pytest.approx(launch.started, abs=2)
    assert world.launcher.probe(epoch, None).state is ProcessState.RUNNING


def test_launching_returns_at_once(world: World, epoch: Epoch, tmp_path: Path) -> None:
    (tmp_path / "spark-submit").write_text(SUBMIT)
    (tmp_path / "spark-submit").chmod(0o700)
    begun = time.monotonic()

    world.launcher.launch(request_for(epoch, tmp_path, str(tmp_path / "spark-submit")))

    assert time.monotonic() - begun < 1


def test_a_driver_that_was_never_started_is_gone(world: World, epoch: Epoch) -> None:
    assert world.launcher.find(epoch) is None
    assert world.launcher.probe(epoch, None).state is ProcessState.GONE


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "not_recorded"])
def test_a_killed_driver_is_proved_gone(world: World, epoch: Epoch, is_recorded: bool) -> None:
    launch = world.start(epoch)

    process = world.launcher.kill(epoch, launch if is_recorded else None)

    assert process.state is ProcessState.GONE
    assert world.launcher.probe(epoch, launch).state is ProcessState.GONE
    assert world.launcher.find(epoch) is None


def test_killing_twice_is_harmless(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)
    world.launcher.kill(epoch, launch)

    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE


def test_a_suspended_driver_is_suspended_and_can_be_killed(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)
    world.suspend(launch)

    assert world.launcher.probe(epoch, launch).state is ProcessState.SUSPENDED
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE


def test_a_driver_that_lost_its_leader_is_not_gone_yet(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)
    world.lose_leader(launch)

    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING
    assert world.launcher.find(epoch) is not None
    assert world.launcher.kill(epoch, launch).state is ProcessState.GONE


def test_a_driver_that_ended_is_gone(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)
    world.lose_all(launch)

    wait_until(lambda: world.launcher.probe(epoch, launch).state is ProcessState.GONE)


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
    world: World, epoch: Epoch, elsewhere: Host
) -> None:
    launch = world.start(epoch)
    other = world.seen_from(elsewhere)

    assert other.probe(epoch, launch).state is ProcessState.UNSEEN
    assert other.probe(epoch, None).state is ProcessState.UNSEEN
    assert other.find(epoch) is None
    assert other.kill(epoch, launch).state is ProcessState.UNSEEN
    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "not_recorded"])
def test_after_a_reboot_a_driver_is_gone(world: World, epoch: Epoch, is_recorded: bool) -> None:
    launch = world.start(epoch)
    rebooted = world.seen_from(replace(FAKE_HOST, boot="boot-2"))

    process = rebooted.probe(epoch, launch if is_recorded else None)

    assert process.state is ProcessState.GONE
    assert "rebooted" in process.detail


def test_cpu_time_of_a_driver_is_told(world: World, epoch: Epoch) -> None:
    launch = world.start(epoch)

    cpu_seconds = world.launcher.probe(epoch, launch).cpu_seconds

    assert cpu_seconds is not None
    assert cpu_seconds >= 0
