"""
Ten thousand upgrades with the real engine and a played driver, by seed.

``python -m tests.system.upgrade_simulated --seeds 10000`` needs no Spark. In each course workers are
killed before durable steps, or suspended and overtaken; drivers are killed; the new code fails at
once, later, falls behind, or hangs; an operator aborts, rolls back or keeps, and the stream's desired
state becomes "stopped". Half of the upgrades are pre-warmed, and their warmed drivers come to the
barrier, or end, hang or are killed before, at or after it. No driver may be started or released
beside another one that may write. In the end the upgrade has to be closed, every batch has to have been written
once by a deployment that counts, and the stream has to run what its records say. One line is printed
for each course that is not so, and the process ends with 1. ``--out FILE`` writes a line of JSON a
course, so that two releases can be compared.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from airflow_streaming.exceptions import StreamingError, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.change_table import facts_of
from airflow_streaming.model.records.control import ChangeOutcome, DesiredState
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.services.changes import command_upgrade
from tests.patience import PATIENCE
from tests.unit.changes.upgrade.killing import DyingLauncher, Pause, rows
from tests.unit.changes.upgrade.upgrading import NEVER, Upgraded, end_of
from tests.unit.checkpoints.restoring import Killed, Life
from tests.unit.launch.restored_stream import DyingStore

_MEMORY: Final = Path("/dev/shm")
CODES: Final = (
    *("works",) * 6,
    *("fails at once", "fails after two", "fails after two", "falls behind", "hangs", "idles"),
)
WARMTHS: Final = (
    *("warms",) * 6,
    *("ends early", "ends warm", "silent", "never comes", "ends promoted", "ends promoted"),
)
SETTLING: Final = 40
"""Ticks after the end in which the keep-alive task brings back what was killed last."""
MOST_TICKS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """
    What happens in one upgrade, drawn from its seed.

    :param deaths: Durable steps before which the workers, one after the other, are killed.
    :param overtaken: Step before which the first worker is suspended while others finish; 0: it is not.
    :param word: What an operator commands once the upgrade has come to stage ``word_at``; or nothing.
    :param kills: Ticks at which the living driver is killed.
    :param stops_at: Tick at which the desired state becomes "stopped"; 0 for never.
    :param warmth: What the warmed driver does, see ``WarmedDriver``; empty: it is not pre-warmed.
    :param warm_kills: Ticks at which the warmed driver is killed while it waits.
    :param asks: Keeping a good deployment needs a command; ``answer`` is what is given then.
    """

    seed: int
    code: str
    deaths: tuple[int, ...]
    overtaken: int
    word: str
    word_at: str
    kills: tuple[int, ...]
    stops_at: int
    asks: bool
    answer: str
    warmth: str = ""
    warm_kills: tuple[int, ...] = ()


def drawn(seed: int) -> Course:
    """Return the course of a seed."""
    chance = Random(f"upgrade {seed}")
    word = chance.choice(["", "", "", "abort", "roll-back", "keep"])
    at = ("begun", "backed_up", "stopped", "applying", "deployed", "launched", "judged")
    course = Course(
        seed=seed,
        code=chance.choice(CODES),
        deaths=tuple(chance.randrange(1, 50) for _ in range(chance.choice([0, 1, 2, 3]))),
        overtaken=chance.randrange(1, 50) if chance.random() < 0.15 else 0,
        word=word,
        word_at=chance.choice(at) if word else "",
        kills=tuple(sorted(chance.randrange(1, 15) for _ in range(chance.choice([0, 0, 1, 2])))),
        stops_at=chance.randrange(1, 15) if chance.random() < 0.1 else 0,
        asks=chance.random() < 0.25,
        answer=chance.choice(["keep", "roll-back"]),
    )
    # Drawn apart, so that the other half of the seeds mean what they meant before there were warm-ups.
    warming = Random(f"warming {seed}")
    if warming.random() < 0.5:
        return course
    is_at_ready = course.word_at == "backed_up" and warming.random() < 0.5
    return replace(
        course,
        word_at="ready" if is_at_ready else course.word_at,
        warmth=warming.choice(WARMTHS),
        warm_kills=tuple(warming.randrange(1, 12) for _ in range(warming.choice([0, 0, 0, 1]))),
        # An upgrade that is warmed up takes more steps.
        deaths=tuple(step + warming.randrange(0, 12) for step in course.deaths),
    )


class Simulated(Upgraded):
    """A stream with what a course has happen to it."""

    def __init__(self, folder: Path, course: Course) -> None:
        self.course, self.ticks, self.words = course, -NEVER, list[str]()
        self.is_kept_by_command = False
        super().__init__(folder, course.code, course.warmth)
        self.ticks = 0

    def tick(self) -> None:
        super().tick()
        self.ticks += 1
        if self.ticks in self.course.kills:
            for epoch in self.living():
                self.launcher.end(epoch.token)
        if self.ticks in self.course.warm_kills:
            for standby in self.standbys():
                self.launcher.end(standby.token)
        if self.ticks == self.course.stops_at:
            self.want(DesiredState.STOPPED)
        self._speak()

    def _speak(self) -> None:
        changes = self.home.changes()
        is_spoken = bool(self.words) or not self.course.word
        if is_spoken or not changes or end_of(self) is not None:
            return
        if Stage(self.course.word_at) is Stage.BEGUN or self.course.word_at in self.stages():
            self.words.append(self.course.word)
            self.command(self.course.word)

    def command(self, word: str) -> None:
        """Give a command that may come too late."""
        with contextlib.suppress(UpgradeRefused):
            command_upgrade(
                *(self.home, self.home.changes()[0], UpgradeCommand(word)),
                by="ada",
                reason="The course says so.",
            )
            self.is_kept_by_command |= word == "keep"


def worker(stream: Simulated, home: StreamHome) -> None:
    """Begin, or go on, until it is over."""
    if not stream.home.changes():
        if stream.course.stops_at and stream.ticks >= stream.course.stops_at:
            return
        stream.begin(home, keeps_by_itself=not stream.course.asks)
    for _ in range(MOST_TICKS):
        progress = stream.advance(Stage.KEPT, home)
        if progress.is_there:
            return
        if progress.needs_person and stream.course.asks:
            stream.command(stream.course.answer)
        stream.tick()
    raise AssertionError(f"It came to no end: {progress}")


def _dying(stream: Simulated, life: Life) -> StreamHome:
    stream.worker = DyingLauncher(stream.launcher, life)
    return StreamHome(DyingStore(LocalStore(stream.uri), life), "orders")


def played(course: Course, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Play a course; return what came of it, and what is wrong with that."""
    stream = Simulated(folder, course)
    late, pause, failed = None, None, list[BaseException]()
    if course.overtaken:
        pause = Pause(course.overtaken)
        late = _suspended(stream, pause, failed)
    for step in course.deaths:
        home = _dying(stream, Life(step))
        with contextlib.suppress(Killed):
            worker(stream, home)
        stream.worker = None
        stream.tick()
    worker(stream, stream.home)
    if late is not None and pause is not None:
        pause.go.set()
        late.join(PATIENCE)
    for _ in range(SETTLING):
        if not _faults(stream):
            break
        stream.tick()
    return _told(stream), [*_faults(stream), *(repr(err) for err in failed)]


def _suspended(stream: Simulated, pause: Pause, failed: list[BaseException]) -> threading.Thread:
    home = _dying(stream, pause)

    def work() -> None:
        try:
            worker(stream, home)
        except StreamingError:
            pass  # who wakes up late may be refused
        except BaseException as err:  # noqa: BLE001 - whatever it is, it is a fault
            failed.append(err)
        finally:
            pause.arrived.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert pause.arrived.wait(PATIENCE)
    stream.worker = None
    return thread


def _told(stream: Simulated) -> dict[str, Any]:
    end, newest = end_of(stream), stream.deployment
    return {
        "outcome": end.outcome.value if end else None,
        "deployment": newest.number,
        "checkpoint": newest.checkpoint.removeprefix(stream.uri),
        "runs": stream.running(),
        "rows": rows(stream),
        "start": _start(stream),
    }


def _start(stream: Simulated) -> str:
    """Return how the new driver was started, as the records say."""
    if not stream.course.warmth or not stream.home.changes():
        return "plain"
    facts = facts_of(stream.home.upgrade_steps(1))
    return facts.get("warm_up", "not begun") if "epoch" in facts else "never"


def _faults(stream: Simulated) -> list[str]:
    changes, end = stream.home.changes(), end_of(stream)
    if not changes:
        return [] if stream.course.stops_at else ["It was never begun."]
    faults = [] if len(changes) == 1 else [f"{len(changes)} changes."]
    if end is None:
        return [*faults, f"It is open: {stream.stages()}"]
    if rows(stream) != "whole":
        faults.append(rows(stream))
    newest = {ChangeOutcome.DONE: 2, ChangeOutcome.ROLLED_BACK: 3, ChangeOutcome.ABANDONED: 1}
    if stream.deployment.number != newest[end.outcome]:
        faults.append(f"Deployment {stream.deployment.number} after {end.outcome}.")
    faults += _running(stream)
    waiting = [one.number for one in stream.standbys() if not stream.may_write(one)]
    return [*faults, f"Standbys {waiting} wait still."] if waiting else faults


def _running(stream: Simulated) -> list[str]:
    running, desired = stream.running(), stream.home.desired()
    if desired is not None and desired.state is DesiredState.STOPPED:
        return [] if running is None else [f"Deployment {running} runs; it is wanted stopped."]
    is_bad = stream.code not in ("works", "idles")
    if is_bad and stream.is_kept_by_command:
        return []
    return [] if running == stream.deployment.number else [f"Deployment {running} runs."]


def _quick() -> None:
    logging.disable(logging.CRITICAL)
    # No power is cut here, so nothing has to reach the disk.
    os.fsync, os.sync = lambda _: None, lambda: None  # type: ignore[assignment]


def _one(seed: int) -> tuple[int, dict[str, Any], list[str]]:
    folder = Path(tempfile.mkdtemp(prefix="upgrade-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        return (seed, *played(drawn(seed), folder))
    except AssertionError as err:
        return seed, {}, [str(err)[:500]]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the courses; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path(os.devnull))
    given = parser.parse_args(arguments)
    began, bad = time.monotonic(), 0
    ends: Counter[str] = Counter()
    starts: Counter[str] = Counter()
    seeds = range(given.first, given.first + given.seeds)
    _quick()
    if given.seeds == 1:
        print(drawn(given.first), *_one(given.first), sep="\n")
        return 0
    with (
        multiprocessing.Pool(given.processes, _quick, maxtasksperchild=200) as pool,
        given.out.open("w") as out,
    ):
        for done, (seed, found, faults) in enumerate(pool.imap(_one, seeds, chunksize=4), 1):
            ends[str(found.get("outcome"))] += 1
            starts[str(found.get("start"))] += 1
            out.write(json.dumps([seed, found, faults], sort_keys=True) + "\n")
            if faults:
                bad += 1
                print(f"seed {seed}: {' | '.join(faults)[:600]}", flush=True)
            if done % 500 == 0:
                print(f"{done} courses in {time.monotonic() - began:.0f} s, {bad} bad", flush=True)
    print(f"{len(seeds)} upgrades: {bad} not as they have to be. Ends: {dict(ends)}.")
    print(f"New drivers: {dict(starts)}.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
