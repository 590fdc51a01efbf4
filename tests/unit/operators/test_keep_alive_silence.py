"""A driver that says nothing: killed where it can be, left alone where it cannot be seen."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_streaming.model.records.control import EventKind
from airflow_streaming.model.records.epoch import Host, TerminationProof
from tests.unit.world import World

ANOTHER_HOST = Host(name="worker-2", machine="machine-2", boot="boot-9", pid_space="pid:[1]")


def test_a_hung_driver_is_killed_proved_dead_and_restarted(world: World) -> None:
    trigger = world.run()
    world.say(beat=5)
    world.launcher.suspend(world.epoch().token)

    memory = {"epoch": 1, "beat": 5, "silent_for": 50.0, "suspended_for": 50.0}
    world.wake(trigger, memory=memory)

    assert world.launcher.killed == [1]
    assert world.launcher.living() == [2]
    death = world.home.death(1)
    assert death is not None
    assert "killed" in death.evidence


def test_a_driver_that_came_back_to_life_before_the_task_woke_is_spared(world: World) -> None:
    trigger = world.run()
    world.say(beat=6)

    memory = {"epoch": 1, "beat": 5, "silent_for": 50.0, "suspended_for": 50.0}
    world.wake(trigger, memory=memory)

    assert world.launcher.killed == []


def test_a_driver_that_cannot_be_killed_blocks_the_stream(world: World) -> None:
    trigger = world.run()
    world.say(beat=5)
    world.launcher.suspend(world.epoch().token)
    world.launcher.is_unkillable = True

    memory = {"epoch": 1, "beat": 5, "silent_for": 50.0, "suspended_for": 50.0}
    trigger = world.wake(trigger, memory=memory)

    assert world.epochs() == 1
    assert trigger.blocked


def test_a_silent_driver_on_another_host_is_left_alone_until_a_person_vouches(
    world: World,
) -> None:
    trigger = world.run()
    world.say(beat=5)
    world.launcher.here = ANOTHER_HOST
    memory = {"epoch": 1, "beat": 5, "silent_for": 500.0}

    trigger = world.wake(trigger, memory=memory)

    assert world.epochs() == 1
    assert trigger.blocked
    told = [event for event in world.home.events() if event.event is EventKind.BLOCKED]
    assert "declare-dead orders" in told[0].message

    world.home.declare_dead(
        TerminationProof(
            epoch=1,
            evidence="I pulled the plug.",
            by="ann",
            override=True,
            declared_at=datetime.now(UTC),
        )
    )
    world.wake(trigger, memory=memory)
    assert world.epochs() == 2
