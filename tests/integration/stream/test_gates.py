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

from airflow_streaming.core.health import HealthRules
from airflow_streaming.sensors.gate import StreamGateSensor
from airflow_streaming.sensors.stream import StreamHealthSensor, StreamProgressSensor
from airflow_streaming.triggers.gate import GateTrigger
from tests.integration.stream.conftest import first_event
from tests.integration.stream.test_foreign import Foreign

RULES = HealthRules(stall_after=timedelta(seconds=10), stall_factor=3)
LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


@pytest.fixture
def foreign(tmp_path: Path, spark_4_3: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Foreign]:
    stream = Foreign(tmp_path, spark_4_3)
    monkeypatch.setenv("AIRFLOW__STREAMING__METRICS_ENDPOINTS", f"http://127.0.0.1:{stream.port}")
    yield stream
    stream.signal(signal.SIGKILL)
    stream.process.wait(30)


class Waiting:
    """A deferred sensor, its trigger at work, and what it says meanwhile."""

    def __init__(self, sensor: type[StreamGateSensor], foreign: Foreign, **asked: Any) -> None:
        self.sensor = sensor(
            task_id="gate",
            checkpoint=str(foreign.checkpoint),
            deferrable=True,
            poke_interval=0.5,
            **asked,
        )
        self.said: list[str] = []
        self.event = asyncio.create_task(first_event(self._trigger(), seconds=170))

    def _trigger(self) -> GateTrigger:
        with pytest.raises(TaskDeferred) as deferred:
            self.sensor.execute({})
        _, kwargs = deferred.value.trigger.serialize()
        trigger = GateTrigger(**{**kwargs, "deferred_at": LONG_AGO})
        trigger.log.info = lambda text, *args: self.said.append(text % args)  # type: ignore[method-assign]
        return trigger

    async def passes(self) -> dict[str, Any]:
        """Wait until the gate opens; return what the next task is given."""
        event = await asyncio.wait_for(self.event, 60)
        seen: dict[str, Any] = self.sensor.execute_complete({}, event)
        return seen

    async def says(self, words: str) -> None:
        """Wait until the gate says something, still closed."""
        await until(lambda: any(words in line for line in self.said), words)
        assert not self.event.done()


async def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - what is awaited is another process
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{what!r} did not happen within {seconds:.0f} s") from None


@asynccontextmanager
async def fed(foreign: Foreign) -> AsyncIterator[None]:
    """Give the stream something to read all the time."""

    async def feed() -> None:
        while True:
            foreign.feed()
            await asyncio.sleep(0.3)

    feeding = asyncio.create_task(feed())
    try:
        yield
    finally:
        feeding.cancel()


async def test_gates_on_a_stream_that_knows_nothing_of_us(foreign: Foreign) -> None:
    endpoint = f"http://127.0.0.1:{foreign.port}"
    for_ever: dict[str, Any] = {"healthy_for": timedelta(days=1), "rules": RULES}
    alone = Waiting(StreamHealthSensor, foreign, **for_ever)
    asking = Waiting(StreamHealthSensor, foreign, endpoint=endpoint, **for_ever)
    await alone.says("There is no checkpoint of a streaming query")

    async with fed(foreign):
        third = await Waiting(StreamProgressSensor, foreign, batch=2).passes()
        assert third["batch"] >= 2
        well = Waiting(StreamHealthSensor, foreign, healthy_for=timedelta(seconds=2), rules=RULES)
        assert (await well.passes())["batch"] > third["batch"]
        await alone.says("of 86400 s")
        await asking.says("of 86400 s")

        (foreign.folder / "hang").touch()
        await alone.says("and is not committed, which is more than")
        await asking.says("Its application is alive.")
        since = datetime.now(UTC)
        progress = Waiting(StreamProgressSensor, foreign, committed_since=since)
        await progress.says("has committed nothing since")

        (foreign.folder / "hang").unlink()
        after = await progress.passes()
        assert after["batch"] > third["batch"]

    await asking.says("plans nothing; its application is alive and has gauges of it")
    await alone.says("a query that waits for data and one that is dead look the same")
    foreign.signal(signal.SIGKILL)
    await asking.says("is gone: its metrics endpoint answered before and has refused connections")
    assert not alone.event.done()
    last = await Waiting(StreamProgressSensor, foreign, batch=after["batch"]).passes()
    assert last["batch"] >= after["batch"], "what was committed stays so"
    for waiting in (alone, asking):
        waiting.event.cancel()
    await asyncio.wait([alone.event, asking.event])
