"""Gates on a stream's health, in every mode of a sensor."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.epoch import Host
from airflow_streaming.sensors import stream
from airflow_streaming.sensors.stream import StreamHealthSensor
from airflow_streaming.triggers.stream import StreamHealthTrigger
from tests.unit.world import World

LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


def make_sensor(world: World, **kwargs: Any) -> StreamHealthSensor:
    return StreamHealthSensor(
        task_id="gate", home=world.uri, stream="orders", **{"deferrable": False, **kwargs}
    )


@pytest.fixture
def beating(world: World) -> Any:
    """Let the driver's heartbeat rise every few milliseconds, healthy for two minutes."""
    done = threading.Event()

    def beat() -> None:
        number = 1
        while not done.wait(0.01):
            number += 1
            world.say(beat=number, progressed_for=timedelta(minutes=2))

    world.run()
    thread = threading.Thread(target=beat)
    thread.start()
    yield world
    done.set()
    thread.join()


@pytest.fixture(autouse=True)
def short_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LISTEN", timedelta(seconds=1.5))


def test_a_healthy_stream_opens_the_gate(beating: World) -> None:
    assert make_sensor(beating, healthy_for=timedelta(minutes=1)).poke(beating.context()) is True


def test_a_stream_that_is_not_healthy_long_enough_keeps_it_closed(beating: World) -> None:
    sensor = make_sensor(beating, healthy_for=timedelta(minutes=30))

    assert sensor.poke(beating.context()) is False


def test_a_status_left_by_a_driver_nobody_can_see_is_no_proof_of_life(world: World) -> None:
    world.run()
    world.say(beat=9, progressed_for=timedelta(minutes=2))
    world.launcher.here = Host(name="elsewhere")

    assert make_sensor(world).poke(world.context()) is False


def test_a_stream_that_never_ran_is_waited_for(world: World) -> None:
    assert make_sensor(world).poke(world.context()) is False


def test_a_stopped_stream_fails_the_gate_at_once(world: World) -> None:
    world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=datetime.now(UTC))

    with pytest.raises(AirflowFailException, match="wanted stopped"):
        make_sensor(world).poke(world.context())


def test_an_open_circuit_fails_the_gate_at_once(world: World) -> None:
    world.run()
    world.home.open_circuit(epoch=1, by="t", reason="budget spent.", now=datetime.now(UTC))

    with pytest.raises(AirflowFailException, match="budget spent"):
        make_sensor(world).poke(world.context())


def test_deferred_it_hands_its_question_to_a_trigger(world: World) -> None:
    sensor = make_sensor(world, deferrable=True, healthy_for=timedelta(seconds=30), timeout=60)

    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(world.context())

    assert isinstance(deferred.value.trigger, StreamHealthTrigger)
    assert deferred.value.trigger.healthy_for_seconds == 30.0
    assert deferred.value.timeout == timedelta(seconds=60)


async def test_the_trigger_of_a_gate_tells_when_the_stream_is_healthy(beating: World) -> None:
    trigger = StreamHealthTrigger(
        home=beating.uri,
        stream="orders",
        deferred_at=LONG_AGO,
        poll_seconds=0.05,
        healthy_for_seconds=60.0,
    )

    async with asyncio.timeout(10):
        events = [event.payload async for event in trigger.run()]

    assert [event["state"] for event in events] == ["ready"]
    make_sensor(beating).execute_complete(beating.context(), events[0])


def test_what_the_trigger_found_lost_fails_the_gate(world: World) -> None:
    with pytest.raises(AirflowFailException, match="circuit"):
        make_sensor(world).execute_complete({}, {"state": "lost", "reason": "The circuit is open."})
