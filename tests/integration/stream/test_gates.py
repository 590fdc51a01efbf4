"""A Spark stream that knows nothing of us, as the sensors of a batch dag see it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.model.observation import VerdictState
from airflow_streaming.sensors.stream import (
    StreamGateSensor,
    StreamHealthSensor,
    StreamProgressSensor,
)
from airflow_streaming.triggers.gate import GateTrigger
from tests.integration.stream.test_foreign import RULES, WARM, Foreign, running
from tests.patience import until_async

LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


@pytest.fixture
def stream(tmp_path: Path, spark_4_3: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Foreign]:
    with running(tmp_path, spark_4_3) as stream:
        monkeypatch.setenv("AIRFLOW__STREAMING__METRICS_ENDPOINTS", stream.url)
        yield stream


class Waiting:
    """A deferred sensor, its trigger at work, and what it sees meanwhile."""

    def __init__(self, sensor: type[StreamGateSensor], stream: Foreign, **asked: Any) -> None:
        self.stream = stream
        self.sensor = sensor(
            task_id="gate",
            checkpoint=str(stream.checkpoint),
            deferrable=True,
            poke_interval=0.5,
            **asked,
        )
        self.states: list[VerdictState | None] = []
        # It has no bound of its own: the bounds are on what the test waits for.
        self.event = asyncio.create_task(self._first_event(self._trigger()))

    def _trigger(self) -> GateTrigger:
        with pytest.raises(TaskDeferred) as deferred:
            self.sensor.execute({})
        _, kwargs = deferred.value.trigger.serialize()
        trigger = GateTrigger(**{**kwargs, "deferred_at": LONG_AGO})
        look_once = trigger.look_once

        def look_and_note() -> tuple[dict[str, Any] | None, VerdictState | None]:
            payload, state = look_once()
            self.states.append(state)
            return payload, state

        trigger.look_once = look_and_note  # type: ignore[method-assign]
        return trigger

    @staticmethod
    async def _first_event(trigger: GateTrigger) -> dict[str, Any]:
        events = [event.payload async for event in trigger.run()]
        payload: dict[str, Any] = events[0]
        return payload

    async def passes(self) -> dict[str, Any]:
        """Wait until the gate opens; return what the next task is given."""
        await self._until(self.event.done, "The gate's opening")
        seen: dict[str, Any] = self.sensor.execute_complete({}, self.event.result())
        return seen

    async def sees(self, state: VerdictState) -> None:
        """Wait until a look that begins from now on sees the stream so, and the gate is closed."""
        looks = len(self.states) + 1  # one may have begun already
        await self._until(lambda: self.event.done() or state in self.states[looks:], f"{state}")
        assert not self.event.done(), self.event

    async def stays_closed(self) -> None:
        """Wait for a whole look at the stream, after which the gate is still closed."""
        looks = len(self.states) + 1
        await self._until(lambda: self.event.done() or len(self.states) > looks, "Another look")
        assert not self.event.done(), self.event

    async def _until(self, condition: Callable[[], object], what: str) -> None:
        await until_async(
            condition,
            what,
            seen=lambda: f"Looks: {', '.join(map(str, self.states[-20:]))}\n{self.stream.log}",
            failing=self.stream.has_ended,
        )

    async def end(self) -> None:
        self.event.cancel()
        await asyncio.wait([self.event])


@asynccontextmanager
async def fed(stream: Foreign) -> AsyncIterator[None]:
    """Give the stream something to read all the time."""

    async def feed() -> None:
        while True:
            stream.feed()
            await asyncio.sleep(0.3)

    feeding = asyncio.create_task(feed())
    try:
        yield
    finally:
        feeding.cancel()


async def test_gates_on_a_stream_that_knows_nothing_of_us(stream: Foreign) -> None:
    for_ever: dict[str, Any] = {"healthy_for": timedelta(days=1), "rules": RULES}
    alone = Waiting(StreamHealthSensor, stream, **for_ever)
    asking = Waiting(StreamHealthSensor, stream, endpoint=stream.url, **for_ever)
    await alone.sees(VerdictState.UNREACHABLE)
    stream.begin()

    async with fed(stream):
        warm = await Waiting(StreamProgressSensor, stream, batch=WARM).passes()
        assert warm["batch"] >= WARM
        well = Waiting(StreamHealthSensor, stream, healthy_for=timedelta(seconds=2), rules=RULES)
        assert (await well.passes())["batch"] > warm["batch"]
        await alone.sees(VerdictState.HEALTHY)
        await asking.sees(VerdictState.HEALTHY)

        stream.hang()
        await until_async(lambda: stream.hangs, "A batch that hangs", failing=stream.has_ended)
        await alone.sees(VerdictState.STALLED)
        await asking.sees(VerdictState.STALLED)
        since = datetime.now(UTC)
        progress = Waiting(StreamProgressSensor, stream, committed_since=since)
        await progress.stays_closed()

        stream.release()
        after = await progress.passes()
        assert after["batch"] > warm["batch"]

    # Nothing to read: from the checkpoint alone the same as death.
    await asking.sees(VerdictState.IDLE)
    await alone.sees(VerdictState.UNREACHABLE)
    stream.signal(signal.SIGKILL)
    await asking.sees(VerdictState.DEAD)
    await alone.stays_closed()
    last = await Waiting(StreamProgressSensor, stream, batch=after["batch"]).passes()
    assert last["batch"] >= after["batch"], "what was committed stays so"
    for waiting in (alone, asking):
        await waiting.end()
