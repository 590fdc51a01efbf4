"""Kills the worker of played cutovers before every durable step: ``python -m``, by hand.

Prints the number of steps of each story; ends with an error where an end is another one.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_streaming.model.records.cutover_table import CutoverState
from tests.unit.changes.cutover.cut_short import (
    WAYS,
    Story,
    aborted_at,
    every_step,
    rolled_back_at,
    to_the_end,
)

S = CutoverState
STORIES: Final[Mapping[str, Story]] = {
    "to the end": to_the_end,
    "aborted when ready": aborted_at(S.READY),
    "aborted while warming": aborted_at(S.WARMING),
    "rolled back in the soak": rolled_back_at(S.SOAKING),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="try every so-many-th step")
    every = parser.parse_args().every
    for way, more in WAYS.items():
        for name, story in STORIES.items():
            if way == "parallel" and "warming" in name:
                continue
            with tempfile.TemporaryDirectory() as folder:
                steps = every_step(Path(folder), story, every=every, **more)
            print(f"{way:10} {name:26} {steps:4} steps, the same end after each", flush=True)


if __name__ == "__main__":
    main()
