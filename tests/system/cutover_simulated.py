"""
Ten thousand cutovers with the real engine and modeled drivers, by seed.

``python -m tests.system.cutover_simulated --seeds 10000`` needs no Spark. In each course workers are
killed before durable steps, suspended and overtaken; drivers are killed; new code fails at once or
later; people abort, roll back, keep, and stop the stream. In the end every row has to be in the live
output once and has to have been seen once by a consumer that reads all the time, and no checkpoint
and no sink may ever have had two writers. One line is printed for each course that is not so, and
the process ends with 1. ``--first N --seeds 1`` plays one again and tells its story.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.system.cutovers.model.course import drawn
from tests.system.cutovers.model.memory import decode_once
from tests.system.cutovers.model.playing import Play, Played

_MEMORY = Path("/dev/shm")


def played(seed: int) -> Played:
    """Play one course in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="cutover-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        return Play(folder, drawn(seed)).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _quick() -> None:
    logging.disable(logging.CRITICAL)
    # No power is cut here, so nothing has to reach the disk.
    decode_once()
    os.fsync, os.sync = lambda _: None, lambda: None  # type: ignore[assignment]


def _one(seed: int) -> tuple[int, Played]:
    return seed, played(seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the courses; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    _quick()
    seeds = range(given.first, given.first + given.seeds)
    if given.seeds == 1:
        return _story(given.first)
    began, bad, rows, steps = time.monotonic(), 0, 0, 0
    ends: Counter[str] = Counter()
    with multiprocessing.Pool(given.processes, _quick, maxtasksperchild=200) as pool:
        for done, (seed, found) in enumerate(pool.imap_unordered(_one, seeds, chunksize=4), 1):
            ends.update(found.ends)
            rows, steps = rows + found.rows, steps + found.steps
            if found.faults:
                bad += 1
                print(f"seed {seed}: {' | '.join(found.faults)[:600]}", flush=True)
            if done % 500 == 0:
                print(f"{done} courses in {time.monotonic() - began:.0f} s, {bad} bad", flush=True)
    print(
        f"{len(seeds)} courses with {sum(ends.values())} cutovers, {steps} durable steps, {rows} rows "
        f"read: {bad} courses not as they have to be. Ends: {dict(ends)}."
    )
    return 1 if bad else 0


def _story(seed: int) -> int:
    course = drawn(seed)
    print(course)
    folder = Path(tempfile.mkdtemp(prefix="cutover-", dir=_MEMORY if _MEMORY.is_dir() else None))
    play = Play(folder, course)
    found = play.run()
    home = play.world.home("orders")
    lines = [(0.0, told) for told in play.world.told]
    for change in home.changes():
        if home.leads(change):
            for step in home.steps(change.number):
                print(f"  {step.at:%M:%S} {step.before} {step.event} {step.after}: {step.reason}")
    print(*(told for _, told in lines), sep="\n  ")
    print(found)
    print(folder)
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
