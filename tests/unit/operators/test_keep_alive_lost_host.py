"""A stream whose host is lost: it asks, or takes over when the old driver's lease is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.records.epoch import Epoch, Host
from tests.unit.world import World

ELSEWHERE = Host(name="worker-2", machine="machine-2", boot="boot-2")
LEASE = timedelta(minutes=2)
SILENT = {"epoch": 1, "beat": 1, "silent_for": 3600.0}


def lose_host(world: World, **spec: Any) -> tuple[Any, Any]:
    """Launch a driver, let it beat once, and go to another host; return the trigger and operator."""
    operator = world.operator(**spec)
    trigger = world.run(operator)
    world.say(beat=1)
    world.launcher.here = ELSEWHERE
    return trigger, operator


def test_a_stream_asks_by_default(world: World) -> None:
    trigger, operator = lose_host(world)
    assert world.epoch().lease is None

    world.wake(trigger, operator, memory=SILENT)

    assert world.epochs() == 1


def test_a_stream_takes_over_when_the_lease_is_over(world: World) -> None:
    trigger, operator = lose_host(world, on_lost_host="takeover", lease=LEASE)
    assert world.epoch().lease == LEASE

    world.wake(trigger, operator, memory={**SILENT, "silent_for": 149.0})
    assert world.epochs() == 1
    world.wake(trigger, operator, memory={**SILENT, "silent_for": 151.0})

    assert world.epochs() == 2
    assert world.epoch().overtakes == 1
    death = world.home.death(1)
    assert death is not None
    assert not death.override
    assert [request.epoch.number for request in world.launcher.launched] == [1, 2]


def test_a_heartbeat_that_comes_while_the_next_epoch_is_made_calls_the_takeover_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger, operator = lose_host(world, on_lost_host="takeover", lease=LEASE)
    create = StreamHome.create_epoch

    def beats_meanwhile(home: StreamHome, epoch: Epoch) -> None:
        world.say(beat=2)
        create(home, epoch)

    monkeypatch.setattr(StreamHome, "create_epoch", beats_meanwhile)
    with pytest.raises(StreamingError):
        world.wake(trigger, operator, memory=SILENT)

    assert [request.epoch.number for request in world.launcher.launched] == [1]
    assert world.home.death(1) is None
    assert world.home.death(2) is not None, "the epoch that got no driver"


def test_a_task_that_dies_after_it_made_the_epoch_is_followed_by_one_that_takes_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = RestartPolicy(first_delay=timedelta(0), max_delay=timedelta(0))
    trigger, operator = lose_host(world, on_lost_host="takeover", lease=LEASE, restart=at_once)
    create = StreamHome.create_epoch

    def dies(home: StreamHome, epoch: Epoch) -> None:
        create(home, epoch)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StreamHome, "create_epoch", dies)
        with pytest.raises(KeyboardInterrupt):
            world.wake(trigger, operator, memory=SILENT)
    assert world.epochs() == 2

    monkeypatch.setattr("airflow_streaming.supervision.health.SPAWN_GRACE", timedelta(0))
    world.wake(trigger, operator, watched=2)

    assert [request.epoch.number for request in world.launcher.launched] == [1, 3]
    assert world.home.death(1) is not None
