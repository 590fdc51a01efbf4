"""Triggers of a stream that are let run until they fire, or have looked for a while."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_streaming.triggers.stream import StreamTrigger
from tests.patience import PATIENCE
from tests.unit.world import World

LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
POLL = 0.01


def make_trigger(world: World, **kwargs: Any) -> StreamTrigger:
    asked = {"home": world.uri, "stream": "orders", "deferred_at": LONG_AGO, "poll_seconds": POLL}
    return StreamTrigger(**{**asked, "watched": 1, **kwargs})


async def first_event(trigger: Any) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        events = [event async for event in trigger.run()]
    assert len(events) == 1
    payload: dict[str, Any] = events[0].payload
    return payload


async def stays_silent(trigger: Any, looks: int = 5) -> bool:
    """Let the trigger look a few times; tell whether it said nothing."""
    enough, look, seen = threading.Event(), trigger.look_once, []

    def counted() -> Any:
        seen.append(look())
        if len(seen) >= looks:
            enough.set()
        return seen[-1]

    trigger.look_once = counted
    task = asyncio.create_task(anext(trigger.run()))
    looked = asyncio.create_task(asyncio.to_thread(enough.wait, PATIENCE))
    await asyncio.wait([looked, task], return_when=asyncio.FIRST_COMPLETED)
    is_silent = enough.is_set() and not task.done()
    enough.set()
    task.cancel()
    await asyncio.wait([task, looked])
    return is_silent
