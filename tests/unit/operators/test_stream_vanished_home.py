"""A home that is not mounted looks like a new one, and its driver lives on: no task makes another home."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.exceptions import HomeNotInitialized
from airflow_streaming.storage.probe import RECORD
from tests.unit.world import World


@pytest.fixture
def unmounted(world: World) -> Iterator[Path]:
    """Yield the empty folder in whose place the home of a running stream was mounted."""
    world.run()
    home, volume = Path(world.uri), Path(f"{world.uri}.volume")
    home.rename(volume)
    home.mkdir()
    yield volume
    assert list(home.iterdir()) == []


def test_a_fresh_task_starts_no_second_driver_in_the_empty_folder(
    world: World, unmounted: Path
) -> None:
    with pytest.raises(HomeNotInitialized) as refusal:
        world.run()

    assert len(world.launcher.launched) == 1
    told = str(refusal.value)
    assert f"{world.uri} on host {socket.gethostname()} is not a home: the folder is empty" in told
    assert "drivers may still run" in told
    assert f"'airflow-streaming init {world.uri}'" in told


def test_a_task_that_remembers_the_driver_waits_for_the_home(world: World, unmounted: Path) -> None:
    trigger = world.deferral(
        lambda: world.operator().execute_complete(world.context(), {"watched": 1, "lane": "orders"})
    )

    assert trigger.watched == 1
    assert len(world.launcher.launched) == 1


def test_the_home_that_is_back_is_adopted(world: World) -> None:
    world.run()
    home, volume = Path(world.uri), Path(f"{world.uri}.volume")
    home.rename(volume)
    with pytest.raises(HomeNotInitialized):
        world.run()
    volume.rename(home)

    trigger = world.run()

    assert (trigger.watched, len(world.launcher.launched)) == (1, 1)


def test_a_home_that_lost_its_record_is_not_used_either(world: World) -> None:
    world.run()
    Path(world.uri, RECORD).unlink()

    with pytest.raises(HomeNotInitialized, match=f"no record {RECORD}, only .*orders"):
        world.run()

    assert len(world.launcher.launched) == 1


def test_the_first_run_makes_the_home_when_it_is_asked_to(world: World) -> None:
    shutil.rmtree(world.uri)

    for asked in ({}, {"init_home": False}, {"init_home": "yes"}):
        with pytest.raises(HomeNotInitialized, match='"init_home": true'):
            world.run(**asked)
    world.run(init_home=True)

    assert (world.epochs(), len(world.launcher.launched)) == (1, 1)


def test_a_task_that_remembers_the_driver_leaves_another_home_in_its_place_alone(
    world: World,
) -> None:
    trigger = world.run()
    home, volume = Path(world.uri), Path(f"{world.uri}.volume")
    home.rename(volume)
    world.run(init_home=True)
    world.crash()
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}

    waiting = world.wake(trigger)
    again = world.wake(waiting)

    assert len(world.launcher.launched) == 2
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    assert (again.watched, again.mark) == (trigger.watched, trigger.mark)
    home.rename(f"{world.uri}.other")
    volume.rename(home)
    assert world.wake(again).watched == 1
    assert len(world.launcher.launched) == 2


def test_a_newer_epoch_does_not_hide_another_home(world: World) -> None:
    trigger = world.run()
    home = Path(world.uri)
    home.rename(f"{world.uri}.volume")
    world.run(init_home=True)
    world.home.create_epoch(replace(world.epoch(), number=2, token="another"))

    again = world.wake(trigger)

    assert (again.watched, again.mark) == (1, trigger.mark)
    assert len(world.launcher.launched) == 2
