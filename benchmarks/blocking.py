"""What stops an event loop: how late it comes back, and how long garbage collections last."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterator
from typing import Any, Final

TICK: Final = 0.01


async def lags_of(lags: list[float]) -> None:
    """Note again and again how much later than asked for the event loop comes back."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(TICK)
        lags.append(time.monotonic() - before - TICK)


@contextlib.contextmanager
def collections() -> Iterator[list[float]]:
    """Note how long every garbage collection stopped the process."""
    pauses: list[float] = []
    began = 0.0

    def note(phase: str, _: Any) -> None:
        nonlocal began
        if phase == "start":
            began = time.monotonic()
        else:
            pauses.append(time.monotonic() - began)

    gc.callbacks.append(note)
    try:
        yield pauses
    finally:
        gc.callbacks.remove(note)
