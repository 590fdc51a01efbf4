"""
A worker that is killed before its durable steps: everything that somebody else could see of it.

Steps are counted in a file, over all workers of a run, so that a worker that goes on after a kill
counts on. A killed worker ends without a word (``os._exit``), as with SIGKILL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.model.storage import LocalStore

KILLED: Final = 137


class Steps:
    """
    Counts durable steps and kills this process before some of them.

    :param file: One line a step: its number, the time, whether it was killed there, and what it was.
    :param every: Kill before every so-many-th step; 0 for never. One step kills two workers in a row
        at no time: a loop of just this length would never end.
    :param first: The first step before which to kill.
    """

    def __init__(self, file: Path, every: int, first: int) -> None:
        self._file, self._every, self._first = file, every, first
        lines = file.read_text().splitlines() if file.exists() else []
        self._count = len(lines)
        self._spared = next(
            (line.split(" ", 3)[3] for line in reversed(lines) if " killed " in line), ""
        )

    def step(self, what: str) -> None:
        """Count a step that is about to be done, and perhaps never do it."""
        self._count += 1
        is_due = self._every > 0 and self._count % self._every == self._first % self._every
        is_last = is_due and what != self._spared
        with self._file.open("a", encoding="utf-8") as file:
            fate = "killed" if is_last else "done"
            file.write(f"{self._count} {time.time():.3f} {fate} {what}\n")
        if is_last:
            os._exit(KILLED)

    def watch(self) -> None:
        """Have every durable step of this process counted."""
        for name in ("create", "replace", "delete"):
            _around(LocalStore, name, self._record_step)
        for name in ("launch", "kill"):
            _around(LocalLauncher, name, self._driver_step)
        for name in ("rename", "replace", "link"):
            _around(os, name, self._file_step)

    def _record_step(self, name: str, args: tuple[Any, ...]) -> None:
        self.step(f"{name} {args[1]}")

    def _driver_step(self, name: str, _: tuple[Any, ...]) -> None:
        self.step(name)

    def _file_step(self, name: str, args: tuple[Any, ...]) -> None:
        # What lands in a checkpoint does so by a rename; records of a home are counted above.
        target = str(args[1]) if len(args) > 1 else ""
        if "/checkpoints/" in target or "/backups/" in target:
            self.step(f"{name} {Path(target).parent.name}/{Path(target).name}")


def _around(owner: Any, name: str, before: Callable[[str, tuple[Any, ...]], None]) -> None:
    original = getattr(owner, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        before(name, args)
        return original(*args, **kwargs)

    setattr(owner, name, counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One durable step of a run.

    :param at: Seconds since 1970.
    :param is_killed: A worker was killed before it.
    """

    number: int
    at: float
    is_killed: bool
    what: str


def read_steps(file: Path) -> list[Step]:
    """Return every step of a run."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    parts = (line.split(" ", 3) for line in lines)
    return [
        Step(number=int(number), at=float(at), is_killed=fate == "killed", what=what)
        for number, at, fate, what in parts
    ]
