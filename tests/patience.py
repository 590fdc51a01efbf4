"""
How long a test waits for what it does not do itself: one bound for all of them.

No test is a stopwatch. What another process or thread does takes as long as the machine lets it, so
a bound is only there to end a test whose condition will never come true. It costs time only when
something is broken, and what was seen meanwhile is then part of the failure.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from demo.waiting import PATIENCE

__all__ = ["PATIENCE", "tail", "until", "until_async"]

LINES: Final = 40
"""Lines of a log that a failure shows."""


def nothing() -> Any:
    """Say that there is nothing to show, or that nothing has gone wrong."""
    return None


def until(
    condition: Callable[[], Any],
    what: str,
    *,
    seen: Callable[[], Any] = nothing,
    failing: Callable[[], Any] = nothing,
    seconds: float = PATIENCE,
    every: float = 0.1,
) -> Any:
    """
    Wait until a condition holds and return what it gave.

    :param what: What is waited for, for the failure.
    :param seen: Tells what there is instead, for the failure.
    :param failing: Tells why waiting has become useless; a false value when it has not.
    :raises AssertionError: it became useless, or took longer than anything should.
    """
    waiting = _Waiting(what, seen, failing, seconds)
    while not (found := condition()):
        waiting.check()
        time.sleep(every)
    return found


async def until_async(
    condition: Callable[[], Any],
    what: str,
    *,
    seen: Callable[[], Any] = nothing,
    failing: Callable[[], Any] = nothing,
    seconds: float = PATIENCE,
    every: float = 0.1,
) -> Any:
    """Wait as ``until`` does, while the event loop goes round."""
    waiting = _Waiting(what, seen, failing, seconds)
    while not (found := condition()):
        waiting.check()
        await asyncio.sleep(every)
    return found


def tail(log: Path, lines: int = LINES) -> str:
    """Return the end of a log, for a failure."""
    if not log.exists():
        return f"There is no {log}."
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


class _Waiting:
    """One wait, and how it ends when what it is for does not come."""

    def __init__(
        self, what: str, seen: Callable[[], Any], failing: Callable[[], Any], seconds: float
    ) -> None:
        self._what, self._seen, self._failing = what, seen, failing
        self._seconds, self._begun = seconds, time.monotonic()

    def check(self) -> None:
        if reason := self._failing():
            raise AssertionError(self._failure(f"cannot come any more: {reason}"))
        if time.monotonic() - self._begun >= self._seconds:
            raise AssertionError(self._failure(f"did not come within {self._seconds:.0f} s"))

    def _failure(self, end: str) -> str:
        load = "/".join(f"{figure:.1f}" for figure in os.getloadavg())
        told = self._seen()
        shown = "" if told is None else f"\nSeen instead:\n{told}"
        waited = time.monotonic() - self._begun
        return f"{self._what} {end} (waited {waited:.0f} s, load {load}).{shown}"
