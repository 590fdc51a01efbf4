"""A glance tells the same as a full look, and only of drivers that live."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_streaming.launch import processes
from airflow_streaming.launch.local import LocalLauncher, describe
from airflow_streaming.launch.processes import HAS_PROC, glance, read_life
from airflow_streaming.model.host import this_host
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Launch
from tests.unit.launch.conftest import MakeEpoch
from tests.unit.launch.test_port_contract import LocalWorld, wait_until

pytestmark = pytest.mark.skipif(not HAS_PROC, reason="This system has no /proc.")


@pytest.fixture
def world(tmp_path: Path) -> LocalWorld:
    return LocalWorld(tmp_path)


@pytest.fixture
def epoch(make_epoch: MakeEpoch, world: LocalWorld) -> Iterator[Epoch]:
    epoch = make_epoch(host=world.launcher.host())
    yield epoch
    world.launcher.kill(epoch, None)


def full_look(epoch: Epoch, launch: Launch, world: LocalWorld) -> Process:
    return describe(processes.look(epoch, launch), epoch, launch, world.launcher.host())


def forbid_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("The whole process table was walked.")

    monkeypatch.setattr(psutil, "process_iter", refuse)


@pytest.mark.parametrize("is_suspended", [False, True], ids=["running", "suspended"])
def test_a_glance_at_a_living_driver_tells_what_a_full_look_tells(
    world: LocalWorld, epoch: Epoch, is_suspended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = world.start(epoch)
    if is_suspended:
        world.suspend(launch)
    expected = full_look(epoch, launch, world)

    forbid_the_table(monkeypatch)
    seen = world.launcher.probe(epoch, launch)

    assert (seen.state, seen.detail) == (expected.state, expected.detail)
    assert seen.cpu_seconds == pytest.approx(expected.cpu_seconds, abs=0.1)


def test_a_glance_sees_every_process_below_the_leader(world: LocalWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)
    (child,) = psutil.Process(int(launch.handle["pid"])).children()

    child.suspend()

    wait_until(lambda: child.status() == psutil.STATUS_STOPPED)
    seen = glance(epoch, launch)
    assert seen is not None
    assert seen.stopped == child.pid
    child.resume()


def test_a_glance_never_says_that_a_driver_is_gone(world: LocalWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)
    world.lose_leader(launch)

    assert glance(epoch, launch) is None
    assert world.launcher.probe(epoch, launch).state is ProcessState.RUNNING, "its child lives"


def test_a_process_without_the_token_is_not_the_driver(
    world: LocalWorld, epoch: Epoch, make_epoch: MakeEpoch
) -> None:
    launch = world.start(epoch)

    assert glance(make_epoch(token="f" * 32), launch) is None


def test_a_driver_once_proved_gone_is_not_searched_for_again(
    world: LocalWorld, epoch: Epoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = world.start(epoch)
    world.lose_all(launch)
    wait_until(lambda: world.launcher.probe(epoch, launch).state is ProcessState.GONE)
    proof = world.launcher.probe(epoch, launch)

    forbid_the_table(monkeypatch)

    assert world.launcher.probe(epoch, launch) == proof


def test_an_epoch_whose_launch_is_not_recorded_is_searched_for_every_time(
    world: LocalWorld, epoch: Epoch
) -> None:
    assert world.launcher.probe(epoch, None).state is ProcessState.GONE

    world.start(epoch)

    assert world.launcher.probe(epoch, None).state is ProcessState.RUNNING


def test_a_process_may_be_called_anything(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    with subprocess.Popen([program, "600"]) as process:
        try:
            life = read_life(process.pid)
        finally:
            process.kill()

    assert life is not None
    assert life.parent == psutil.Process().pid
    assert not life.is_stopped


def test_what_has_ended_has_no_life() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()

    assert read_life(process.pid) is None


def test_a_launcher_of_another_host_never_glances(world: LocalWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)
    elsewhere = LocalLauncher(this_host())

    assert elsewhere.probe(epoch, launch).state is ProcessState.UNSEEN
