"""A trigger that cannot see the records or the driver: what it takes that for, and whom it tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.triggers import polling as _polling
from tests.patience import PATIENCE
from tests.unit.triggers.firing import LONG_AGO, POLL, first_event, make_trigger, stays_silent
from tests.unit.world import World


async def test_a_home_that_is_suddenly_empty_is_no_reason_to_launch(world: World) -> None:
    world.run()
    (Path(world.uri) / "orders").rename(world.folder / "unmounted")

    assert await stays_silent(make_trigger(world))


async def test_a_home_that_cannot_be_read_is_no_verdict(world: World) -> None:
    world.run()
    world.crash()
    orders = Path(world.uri) / "orders"
    aside = orders.rename(orders.with_name("aside"))
    orders.symlink_to(orders)  # a loop: neither there nor missing

    trigger = make_trigger(world)
    waiting = asyncio.create_task(first_event(trigger))
    async with asyncio.timeout(PATIENCE):
        while trigger._trouble is None:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(POLL)
    assert not waiting.done()

    orders.unlink()
    aside.rename(orders)
    assert (await waiting)["action"] == "settle"


def damage(world: World) -> Path:
    record = Path(world.uri) / "orders" / "deployments" / "000001.json"
    record.write_text("{")
    return record


async def test_records_that_stay_unreadable_are_shown_to_the_task(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_polling, "DAMAGE_PATIENCE", 0.2)
    trigger = world.run()
    record = damage(world)
    begun = time.monotonic()

    event = await first_event(make_trigger(world, keeps="orders"))

    assert time.monotonic() - begun >= 0.2
    assert (event["action"], event["lane"], event["watched"]) == ("look", "orders", 1)
    assert str(record) in event["reason"]
    with pytest.raises(RecordError, match=record.name):
        world.wake(trigger, **event)


async def test_records_that_are_unreadable_for_a_while_wake_nobody(world: World) -> None:
    world.run()
    damage(world)
    world.say()

    trigger = make_trigger(world)
    looks: list[bool] = []
    trigger.lose_sight = lambda: looks.append(True)
    task = asyncio.create_task(anext(trigger.run()))
    async with asyncio.timeout(PATIENCE):
        while len(looks) < 3:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)

    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def test_a_blocked_stream_does_not_wake_its_task_again_and_again(world: World) -> None:
    world.run()
    world.say()
    world.launcher.here = world.launcher.here.__class__(name="elsewhere")
    first = make_trigger(world)
    first.look = hush(first.look)
    trigger = world.wake(first, **(await first_event(first)))
    trigger.poll_seconds, trigger.deferred_at = POLL, LONG_AGO
    trigger.look = hush(trigger.look)

    assert trigger.blocked
    assert await stays_silent(trigger)


def hush(look: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let every look happen after a long silence."""

    def silenced(observer: Any) -> Any:
        observer.situation()
        observer._memory = observer._memory.__class__(
            epoch=1, beat=observer._memory.beat, since=time.monotonic() - 500
        )
        return look(observer)

    return silenced


async def test_a_driver_that_nobody_here_can_see_is_shown_to_a_worker_once(world: World) -> None:
    world.run()
    world.say()
    world.launcher.here = world.launcher.here.__class__(name="elsewhere")
    trigger = make_trigger(world)
    trigger.look = hush(trigger.look)

    event = await first_event(trigger)

    assert event["action"] == "alert"
    assert "cannot be observed" in event["reason"]
