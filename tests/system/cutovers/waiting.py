"""Wait for a condition, and give up after a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], what: str, seconds: float, every: float = 0.05) -> float:
    """
    Wait for something and return how long it took.

    :raises TimeoutError: it did not come.
    """
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"Waited {seconds:.0f} s in vain for {what}.")
        time.sleep(every)
    return time.monotonic() - began
