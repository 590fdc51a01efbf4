"""The end of a driver's process is told by the system, of the right process and of no other."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_streaming.launch import driver_end
from airflow_streaming.launch.driver_end import open_end
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.port import open_driver_end
from airflow_streaming.launch.registry import RecordedLaunchers
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.model.spark.launchers import LOCAL
from tests.fakes import FakeLauncher
from tests.patience import PATIENCE
from tests.unit.launch.conftest import MakeEpoch
from tests.unit.launch.test_port_contract import LocalWorld

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="This system has no descriptors of processes."
)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def world(tmp_path: Path) -> LocalWorld:
    return LocalWorld(tmp_path)


@pytest.fixture
def epoch(make_epoch: MakeEpoch, world: LocalWorld) -> Iterator[Epoch]:
    epoch = make_epoch(host=world.launcher.host())
    yield epoch
    world.launcher.kill(epoch, None)


def comes(end: driver_end.DriverEnd) -> bool:
    poll = select.poll()
    poll.register(end, select.POLLIN)
    return bool(poll.poll(PATIENCE * 1000))


def test_it_comes_when_the_process_ends(sleeper: subprocess.Popen[bytes]) -> None:
    end = open_end(sleeper.pid, lambda _: True)
    assert end is not None
    assert not end.has_come

    sleeper.kill()

    assert comes(end)
    assert end.has_come
    end.close()


def test_a_process_that_is_not_the_drivers_is_not_watched(
    sleeper: subprocess.Popen[bytes],
) -> None:
    before = driver_end._open

    assert open_end(sleeper.pid, lambda _: False) is None
    assert driver_end._open == before


def test_one_that_ended_while_it_was_asked_who_it_is_is_not_watched(
    sleeper: subprocess.Popen[bytes],
) -> None:
    def ends(_: int) -> bool:
        sleeper.kill()
        sleeper.wait()
        return True

    assert open_end(sleeper.pid, ends) is None
    assert open_end(sleeper.pid, lambda _: True) is None, "there is no such process"


def test_descriptors_are_left_for_the_rest_of_the_process(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    soft = 2 * driver_end._open + 2
    limit = SimpleNamespace(RLIMIT_NOFILE=7, RLIM_INFINITY=-1, getrlimit=lambda _: (soft, 4096))
    monkeypatch.setattr(driver_end, "resource", limit)

    first = open_end(sleeper.pid, lambda _: True)

    assert first is not None
    assert open_end(sleeper.pid, lambda _: True) is None
    first.close()
    again = open_end(sleeper.pid, lambda _: True)
    assert again is not None
    again.close()


def test_closing_twice_closes_once(sleeper: subprocess.Popen[bytes]) -> None:
    end = open_end(sleeper.pid, lambda _: True)
    assert end is not None
    before = driver_end._open

    end.close()
    end.close()

    assert driver_end._open == before - 1
    assert end.fileno() == -1
    assert end.has_come


def test_the_end_of_a_driver_that_is_nobodys_child_is_told(world: LocalWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)
    end = world.launcher.open_end(epoch, launch)
    assert end is not None
    assert not end.has_come

    world.lose_all(launch)

    assert comes(end)
    end.close()


def test_what_outlives_the_leader_is_watched_next(world: LocalWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)
    world.lose_leader(launch)

    end = world.launcher.open_end(epoch, launch)

    assert end is not None
    assert not end.has_come
    world.launcher.kill(epoch, launch)
    assert comes(end)
    end.close()
    assert world.launcher.open_end(epoch, launch) is None


def test_a_process_id_that_was_given_anew_is_not_watched(
    world: LocalWorld, epoch: Epoch, sleeper: subprocess.Popen[bytes]
) -> None:
    launch = world.start(epoch)
    world.lose_all(launch)
    forged = _with_pid(launch, sleeper.pid)

    assert world.launcher.open_end(epoch, forged) is None


def _with_pid(launch: Launch, pid: int) -> Launch:
    return replace(launch, handle={**launch.handle, "pid": str(pid)})


def test_a_driver_on_another_host_is_not_watched(world: LocalWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)

    assert LocalLauncher().open_end(epoch, launch) is None


def test_a_launcher_without_means_leaves_it_to_polls(epoch: Epoch) -> None:
    assert open_driver_end(FakeLauncher(), epoch, None) is None


def test_the_recorded_launcher_is_asked(world: LocalWorld, epoch: Epoch) -> None:
    launch = world.start(epoch)
    launchers = RecordedLaunchers(LOCAL)
    launchers._made[LOCAL] = world.launcher

    end = open_driver_end(launchers, epoch, launch)

    assert end is not None
    end.close()
