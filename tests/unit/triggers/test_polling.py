"""The polling loop: what a slow store, a dead one and a busy one do to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.launch.driver_end import open_end
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.triggers import polling as _polling
from airflow_streaming.triggers import polling as lanes
from airflow_streaming.triggers.home import HomeTrigger
from airflow_streaming.triggers.polling import lane_of
from tests.patience import PATIENCE
from tests.unit.world import World

MANY_HOMES = [f"s3://bucket/{number}" for number in range(100)]
LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


class LookingTrigger(HomeTrigger):
    """A trigger whose look is the test's."""

    def __init__(self, home: str, look: Callable[[], dict[str, Any] | None]) -> None:
        super().__init__(home=home, stream="orders", deferred_at=LONG_AGO, poll_seconds=0.01)
        self._look = look

    def look(self, observer: Observer) -> dict[str, Any] | None:
        return self._look()

    def rules(self) -> tuple[HealthRules | None, RestartPolicy | None]:
        return None, None


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """What a hanging look waits for; set at the end, so that no thread is left behind."""
    end = threading.Event()
    yield end
    end.set()


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that may end."""
    with subprocess.Popen(["sleep", "600"]) as running:
        yield running
        running.kill()


async def fire(trigger: HomeTrigger) -> Any:
    async with asyncio.timeout(PATIENCE):
        return [event.payload async for event in trigger.run()]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)


async def test_a_look_that_hangs_is_told_and_not_made_twice(
    world: World, hang: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_polling, "LOOK_PATIENCE", 0.02)
    begun: list[float] = []

    def look() -> dict[str, Any]:
        begun.append(time.monotonic())
        hang.wait(PATIENCE)
        return {"looks": len(begun)}

    failed: list[str] = []
    monkeypatch.setattr(_polling.telemetry, "count", lambda name, **_: failed.append(name))
    trigger = LookingTrigger(world.uri, look)
    firing = asyncio.create_task(fire(trigger))
    await until(lambda: failed.count("looks_failed") >= 3)
    assert trigger._trouble is not None
    assert "has taken more than" in trigger._trouble
    assert len(begun) == 1

    hang.set()

    assert await firing == [{"looks": 1}]


async def test_a_home_that_hangs_holds_up_no_other_home_and_no_thread_of_airflow(
    world: World, hang: threading.Event
) -> None:
    stuck = [
        asyncio.create_task(
            fire(LookingTrigger(f"{world.uri}-dead", lambda: {"x": hang.wait(PATIENCE)}))
        )
        for _ in range(3 * lanes.LOCAL_THREADS)
    ]
    await asyncio.sleep(0)

    assert await fire(LookingTrigger(world.uri, lambda: {"looked": True})) == [{"looked": True}]
    assert await asyncio.to_thread(lambda: "free") == "free"
    for task in stuck:
        task.cancel()
    await asyncio.wait(stuck)


async def test_a_trigger_that_is_cancelled_takes_back_a_look_not_yet_begun(
    world: World, hang: threading.Event
) -> None:
    blocked = threading.Semaphore(0)

    def block() -> dict[str, Any]:
        blocked.release()
        return {"x": hang.wait(PATIENCE)}

    busy = [
        asyncio.create_task(fire(LookingTrigger(world.uri, block)))
        for _ in range(lanes.LOCAL_THREADS)
    ]
    await asyncio.to_thread(lambda: [blocked.acquire() for _ in busy])
    looked: list[bool] = []
    waiting = LookingTrigger(world.uri, lambda: looked.append(True))
    task = asyncio.create_task(fire(waiting))
    await until(lambda: waiting._pending is not None)

    task.cancel()
    await asyncio.wait([task])
    hang.set()

    await asyncio.wait(busy)
    assert looked == []


async def test_a_failed_look_is_counted_and_the_next_one_tells(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    monkeypatch.setattr(_polling.telemetry, "count", lambda name, **_: counted.append(name))
    answers = iter([HomeUnavailable("the disk is away"), {"looked": True}])

    def look() -> dict[str, Any]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await fire(LookingTrigger(world.uri, look)) == [{"looked": True}]
    assert counted == ["looks_failed"]


async def test_how_late_and_how_long_a_look_was_is_measured(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[str] = []
    monkeypatch.setattr(_polling.telemetry, "timing", lambda name, *_, **__: timed.append(name))

    await fire(LookingTrigger(world.uri, lambda: {"looked": True}))

    assert timed == ["poll_lag", "look_duration"]


@pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="This system has no descriptors of processes."
)
async def test_the_end_of_the_drivers_process_is_looked_at_before_the_next_poll(
    world: World, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_polling, "SPREAD", 0.0)
    trigger = LookingTrigger(world.uri, lambda: None if process.poll() is None else {"gone": 1})
    trigger.poll_seconds = 1_000_000.0
    trigger.driver_end = lambda: open_end(process.pid, lambda _: True)  # type: ignore[method-assign]
    firing = asyncio.create_task(fire(trigger))
    await until(lambda: trigger._end is not None)

    process.kill()

    assert await firing == [{"gone": 1}]
    assert trigger._end is None


@pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="This system has no descriptors of processes."
)
async def test_a_driver_that_outlives_the_told_process_by_a_moment_is_looked_at_again_soon(
    world: World, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_polling, "SPREAD", 0.0)
    # The first look is before the end. The next two see its last process, which ends before it can
    # be watched.
    looks = iter([None, None, None, {"gone": 1}])
    ends = iter([lambda: open_end(process.pid, lambda _: True)])
    trigger = LookingTrigger(world.uri, lambda: next(looks))
    trigger.poll_seconds = 1_000_000.0
    trigger.driver_end = lambda: next(ends, lambda: None)()  # type: ignore[method-assign]
    firing = asyncio.create_task(fire(trigger))
    await until(lambda: trigger._end is not None)

    process.kill()

    assert await firing == [{"gone": 1}]


async def test_looks_after_an_end_grow_rarer_up_to_the_poll(world: World) -> None:
    trigger = LookingTrigger(world.uri, lambda: None)
    trigger.poll_seconds = 1.0
    trigger._looks_since_end = 0

    pauses = [trigger._pause() for _ in range(6)]

    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert all(0.9 <= pause <= 1.1 for pause in pauses[4:])


@pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="This system has no descriptors of processes."
)
async def test_polls_go_on_beside_a_process_whose_end_is_awaited(
    world: World, process: subprocess.Popen[bytes]
) -> None:
    looks = iter([None, None, None, {"looked": True}])
    trigger = LookingTrigger(world.uri, lambda: next(looks))
    trigger.driver_end = lambda: open_end(process.pid, lambda _: True)  # type: ignore[method-assign]

    fired = await fire(trigger)

    assert fired == [{"looked": True}]
    assert trigger._end is not None
    assert trigger._end.fileno() == -1, "the descriptor is given back with the trigger"


def test_time_without_sight_is_no_silence(world: World) -> None:
    world.run()
    world.say(beat=3)
    clock = 0.0
    rules, policy = HealthRules(), RestartPolicy()
    observer = Observer(world.home, world.launcher, rules=rules, policy=policy, clock=lambda: clock)
    observer.situation()
    clock = 20.0
    assert silence(observer) == timedelta(seconds=20)

    observer.lose_sight()
    clock = 620.0

    assert silence(observer) == timedelta(seconds=20), "nobody listened for ten minutes"
    clock = 625.0
    assert silence(observer) == timedelta(seconds=25)


def silence(observer: Observer) -> timedelta:
    seen = observer.situation().seen
    assert seen is not None
    return seen.silent_for


def test_homes_beyond_the_most_lanes_share_one() -> None:
    with contextlib.ExitStack() as triggers:
        used = {triggers.enter_context(lane_of(home)) for home in MANY_HOMES}

    assert len(used) == lanes.MOST_LANES


def test_the_lane_of_a_home_is_given_back_with_its_last_trigger() -> None:
    homes: dict[str, lanes.HomeThreads] = {}
    for home in MANY_HOMES:
        with lane_of(home) as lane, lane_of(home) as same:
            assert same is lane
            homes[home] = lane

    assert len(set(homes.values())) == len(MANY_HOMES)
    assert lanes._lanes == {}


async def test_a_lane_in_which_a_look_hangs_is_kept_for_the_next_trigger_of_its_home(
    hang: threading.Event,
) -> None:
    with lane_of("s3://dead") as lane:
        lane.submit(lambda: hang.wait(PATIENCE))

    with lane_of("s3://dead") as again:
        assert again is lane
    hang.set()
    await until(lambda: lane.is_idle)
    with lane_of("s3://dead") as another:
        assert another is not lane
