"""Wait for a condition, tell what is waited for, and give up with a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

Say = Callable[[str], None]
"""Prints one line of progress."""

PATIENCE: Final = 600.0
"""Seconds to wait for Airflow, Spark or another server before it counts as broken. On two cores with
five times as many busy processes, a Spark driver needed three minutes to its first batch."""

TELL_EVERY: Final = 15.0
"""Seconds between two lines during a wait."""

LOOK_EVERY: Final = 1.0
"""Seconds between two looks. Most ask Airflow's API server, for which a question is some 20 ms of CPU time."""


class Progress:
    """Prints lines with the seconds since the start, so that a reader sees progress."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, line: str) -> None:
        print(f"[{time.monotonic() - self._start:5.0f} s] {line}", flush=True)


def wait_for(
    condition: Callable[[], bool],
    *,
    what: str,
    say: Say,
    seconds: float = PATIENCE,
    failing: Callable[[], str | None] = lambda: None,
    seen: Callable[[], str] = lambda: "",
    every: float = LOOK_EVERY,
) -> float:
    """
    Wait until the condition holds; return the seconds it took.

    :param what: What is waited for, for the lines and the error.
    :param failing: Says why waiting has become useless, or ``None``.
    :param seen: Tells what there is instead, for the error.
    :raises RuntimeError: it became useless, or took too long.
    """
    start = time.monotonic()
    told = start
    say(f"Waiting for {what}")
    while not condition():
        if reason := failing():
            raise RuntimeError(reason)
        now = time.monotonic()
        if now - start > seconds:
            raise RuntimeError(f"Waited {seconds:.0f} s in vain for {what}. {seen()}".strip())
        if now - told >= TELL_EVERY:
            told = now
            say(f"... still waiting for {what}")
        time.sleep(every)
    return time.monotonic() - start
