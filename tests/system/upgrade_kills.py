"""
Kill, and suspend, the worker of an upgrade before every durable step there is.

``python -m tests.system.upgrade_kills`` needs no Spark and takes some minutes. It prints one line
for each story and ends with 1 when any end differs from that of an upgrade nobody disturbed.
"""

# ruff: noqa: T201 - a program that prints
from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.unit.changes.upgrade.killing import (
    Story,
    aborted,
    every_step,
    killed_and_retried,
    suspended_and_overtaken,
    to_the_end,
)

STORIES: Final[tuple[tuple[str, Story, str], ...]] = (
    ("works", to_the_end, ""),
    ("fails at once", to_the_end, ""),
    ("fails after two", to_the_end, ""),
    ("falls behind", to_the_end, ""),
    ("works", aborted, ""),
    # Pre-warmed: what the new driver does at the barrier.
    ("works", to_the_end, "warms"),
    ("works", to_the_end, "ends warm"),
    ("fails after two", to_the_end, "warms"),
    ("works", aborted, "warms"),
)
NEVER: Final = 10**6


def main() -> int:
    """Run all stories; return the exit code."""
    logging.disable(logging.CRITICAL)
    # No power is cut here, so nothing has to reach the disk.
    os.fsync, os.sync = lambda _: None, lambda: None  # type: ignore[assignment]
    wrong = sum(_killed(*story) + _suspended(*story) for story in STORIES)
    print(f"{wrong} ends differ.")
    return 1 if wrong else 0


def _name(code: str, story: Story, warmth: str) -> str:
    return f"{code}, {story.__name__}{f', pre-warmed: {warmth}' if warmth else ''}"


def _killed(code: str, story: Story, warmth: str) -> int:
    name = _name(code, story, warmth)
    with tempfile.TemporaryDirectory() as folder:
        try:
            steps = every_step(Path(folder), code, story, warmth=warmth)
        except AssertionError as err:
            print(f"{name}, killed: {err}")
            return 1
    print(f"{name}, killed before each of {steps - 1} steps: the same end.")
    return 0


def _suspended(code: str, story: Story, warmth: str) -> int:
    name = _name(code, story, warmth)
    with tempfile.TemporaryDirectory() as folder:
        _, wanted = killed_and_retried(Path(folder) / "none", code, story, NEVER, warmth)
        step, wrong, is_suspended = 0, 0, True
        while is_suspended:
            step += 1
            place = Path(folder) / str(step)
            is_suspended, found, failed = suspended_and_overtaken(place, code, story, step, warmth)
            if found != wanted or failed is not None:
                print(f"{name}, suspended before step {step}: {failed!r} {found}")
                wrong += 1
    print(f"{name}, suspended before each of {step - 1} steps: {wrong} differ.")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
