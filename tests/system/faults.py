"""
Fails every durable write of every act with every fault, and counts what does not hold.

    python -m tests.system.faults [ACT ...] [--every N] [--in-turn] [--parts 1-3]

Acts are those of ``tests.unit.faults.acts``. With ``--every N`` each N-th change is tried. With
``--in-turn`` each change gets one of the errors in turn, the lost answer and the kill before it, which is
also the kill after the change before: for acts of hundreds of changes. Every part of eight is spread over
the whole act; ``--parts`` names those to try, so that a run of hours can be made in pieces.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
import structlog

from tests.unit.faults.acts import ACTS
from tests.unit.faults.disk import Fault
from tests.unit.faults.striking import judge, strike

ERRORS: Final = (Fault.EIO, Fault.ENOSPC, Fault.EACCES, Fault.ETIMEDOUT)

PARTS: Final = 8
LONG: Final = 300
"""Changes from which on an act tells of each part."""


def main(words: list[str] | None = None) -> int:
    """Try the acts that were named, or all; return 1 when anything does not hold."""
    parser = argparse.ArgumentParser(prog="tests.system.faults", description=__doc__)
    parser.add_argument("acts", nargs="*", choices=[[], *ACTS], help="acts to try")
    parser.add_argument("--every", type=int, default=1, help="try each so-many-th change")
    parser.add_argument("--in-turn", action="store_true", help="try one of the errors a change")
    parser.add_argument(
        "--parts", type=parts_of, default=range(1, PARTS + 1), help="parts to try, as 2 or 4-6"
    )
    asked = parser.parse_args(words)
    quiet()
    wrong = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        patch.setattr("os.sync", lambda: None)
        for name in asked.acts or ACTS:
            wrong += _try(name, asked.every, asked.parts, is_in_turn=asked.in_turn)
    return 1 if wrong else 0


def quiet() -> None:
    """Keep the log lines of tasks to themselves; they take longer than the writes."""
    logging.disable(logging.CRITICAL)
    structlog.configure(
        processors=[structlog.processors.KeyValueRenderer()],
        logger_factory=structlog.ReturnLoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
    )


def parts_of(text: str) -> range:
    """Return the parts that a text such as ``2`` or ``4-6`` names."""
    first, _, last = text.partition("-")
    parts = range(int(first), int(last or first) + 1)
    if not parts or parts[0] < 1 or parts[-1] > PARTS:
        raise argparse.ArgumentTypeError(f"give parts from 1 to {PARTS}, as 2 or 4-6")
    return parts


def faults_at(change: int, *, is_in_turn: bool) -> list[Fault]:
    """Return the faults to try at a change, counted from 1."""
    if not is_in_turn:
        return [*Fault]
    return [ERRORS[change % len(ERRORS)], Fault.LOST, Fault.BEFORE]


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _try(name: str, every: int, parts: range, *, is_in_turn: bool) -> int:
    begun, found = time.monotonic(), Counter[str]()
    base = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        sound = strike(name, base / "none")
        tried = 0
        for part in parts:
            # A run that is ended early has tried changes of the whole act.
            for at in range(1 + (part - 1) * every, sound.changes + 1, PARTS * every):
                for fault in faults_at(at, is_in_turn=is_in_turn):
                    folder = base / f"{at}-{fault.name}"
                    _, problems = judge(name, folder, at, fault, sound.outcome)
                    shutil.rmtree(folder)
                    found.update(f"{at} {fault}: {problem}" for problem in problems)
                    tried += 1
            if sound.changes > LONG:
                seconds = time.monotonic() - begun
                say(f"  {name}: part {part}, {tried} faults, {len(found)} wrong, {seconds:.0f} s")
    finally:
        shutil.rmtree(base)
    seconds = time.monotonic() - begun
    say(f"{name}: {sound.changes} changes, {tried} faults, {len(found)} wrong, {seconds:.0f} s")
    for problem in found:
        say(f"  {problem}")
    return len(found) + len(sound.problems)


if __name__ == "__main__":
    sys.exit(main())
