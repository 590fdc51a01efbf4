"""
CPU time of the driver's processes: the JVM, this Python, and what both have started.

Read from ``/proc``; elsewhere it is this process's own only. Which processes belong to the driver
is looked up anew every ten seconds, because that means reading through all processes of the host.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_LOOK_EVERY: Final = 10.0
_MAX_PROCESSES: Final = 5_000
"""Processes of the host that are looked through; on a larger host the driver's two must do."""


class CpuMeter:
    """
    Adds up CPU time.

    :param jvm_pid: Returns the JVM's pid; 0 while it is not known.
    :param proc: Where the host's processes are found.
    """

    def __init__(
        self,
        jvm_pid: Callable[[], int],
        *,
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jvm_pid, self._proc, self._clock = jvm_pid, proc, clock
        self._pids: tuple[int, ...] = ()
        self._looked_at = float("-inf")
        self._used: dict[tuple[int, int], float] = {}
        self._total = 0.0

    def seconds(self) -> float:
        """Return the seconds used since the first call, by processes seen twice or more."""
        used = dict(self._readings())
        self._total += sum(
            max(0.0, now - self._used[process])
            for process, now in used.items()
            if process in self._used
        )
        self._used = used
        return self._total

    def _readings(self) -> Iterator[tuple[tuple[int, int], float]]:
        own = os.getpid()
        yield (own, 0), time.process_time()
        if self._clock() - self._looked_at >= _LOOK_EVERY:
            self._pids, self._looked_at = self._family(own), self._clock()
        ticks = os.sysconf("SC_CLK_TCK")
        for pid in self._pids:
            found = _stat(self._proc, pid)
            if found is not None and pid != own:
                # With its start time, because a number is given to another process later.
                yield (pid, int(found[19])), (int(found[11]) + int(found[12])) / ticks

    def _family(self, own: int) -> tuple[int, ...]:
        family = {pid for pid in (own, self._jvm_pid()) if pid}
        pids = _pids(self._proc)
        if len(pids) > _MAX_PROCESSES:
            return tuple(family)
        parents = {pid: int(found[1]) for pid in pids if (found := _stat(self._proc, pid))}
        children: dict[int, list[int]] = {}
        for pid, parent in parents.items():
            children.setdefault(parent, []).append(pid)
        waiting = list(family)
        while waiting:
            for child in children.get(waiting.pop(), ()):
                if child not in family:
                    family.add(child)
                    waiting.append(child)
        return tuple(family)


def _pids(proc: Path) -> list[int]:
    try:
        return [int(entry.name) for entry in os.scandir(proc) if entry.name.isdigit()]
    except OSError:
        return []


def _stat(proc: Path, pid: int) -> list[str] | None:
    """Return what follows a process's name: its state, its parent, ...; ``None`` when it is gone."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > 19 else None
