"""A restart that is decided is due by two clocks, and a person may not wait for either."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.triggers import stream as stream_trigger
from tests.unit.triggers.firing import first_event, make_trigger, stays_silent
from tests.unit.world import World


def killed_and_due(world: World) -> None:
    """Let the driver be killed, and its restart be due by the clock of this host."""
    operator = world.operator()
    world.run(operator)
    world.crash()
    hook = operator.open_hook(world.context())
    hook.controller.settle(hook.observer().situation())


async def test_it_waits_for_a_restart_that_is_not_due(world: World) -> None:
    operator = world.operator()
    trigger = world.run(operator)
    world.crash()
    hook = operator.open_hook(world.context())
    hook.controller._chance = lambda: 1.0
    hook.controller.settle(hook.observer().situation())
    trigger = make_trigger(world)
    decision = world.home.restart_decision(1)
    assert decision is not None
    assert decision.next_attempt_at is not None

    event = await first_event(trigger)

    assert event["action"] == "launch"
    assert datetime.now(UTC) >= decision.next_attempt_at


async def test_a_restart_that_is_not_due_by_the_clock_of_the_task_does_not_wake_it(
    world: World,
) -> None:
    killed_and_due(world)
    begun = time.monotonic()

    assert await stays_silent(make_trigger(world, due_in_seconds=30.0))
    assert (await first_event(make_trigger(world, due_in_seconds=0.2)))["action"] == "launch"
    assert time.monotonic() - begun >= 0.2


async def test_the_clock_of_the_task_is_not_believed_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_trigger, "CLOCKS_APART", timedelta(seconds=0.1))
    killed_and_due(world)

    event = await first_event(make_trigger(world, due_in_seconds=1e6))

    assert event["action"] == "launch"


async def test_a_person_who_starts_the_stream_is_heard_whatever_the_clocks_say(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_trigger, "CLOCKS_APART", timedelta(days=1))
    killed_and_due(world)
    now = datetime.now(UTC)
    world.home.open_circuit(epoch=1, by="ann", reason="x", now=now)
    world.home.close_circuit(epoch=1, by="ann", reason="mended", now=now)

    event = await first_event(make_trigger(world, due_in_seconds=1e6))

    assert event["action"] == "launch"
