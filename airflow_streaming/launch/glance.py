"""
A glance at a driver that lives, where there is a ``/proc``.

Most looks find the driver where it was. That is told from a few small files: the leader's command
line carries the token, and every process below it says its state and CPU time in one line. Who is
below whom is read for all drivers of the host at once and at most every two seconds. A glance only
ever says "alive"; whatever it cannot see for certain is left to a full look at the process table.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_streaming.core.epoch import Epoch, Launch
from airflow_streaming.launch.port import TOKEN_OPTION

HAS_PROC: Final = Path("/proc/self/stat").exists()

FAMILY_AGE: Final = 2.0
"""Seconds for which it is taken as known who is below whom. A process born since is missed for that
long: its CPU time is, which nobody judges by in less than half a minute."""

_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_COMMAND_BYTES: Final = 2**16
"""A token further behind is not seen, and a full look finds it."""

_STAT_BYTES: Final = 4096
_STOPPED: Final = frozenset({"T", "t"})
_ZOMBIE: Final = "Z"


@dataclass(frozen=True, slots=True)
class Life:
    """
    One line of ``/proc/<pid>/stat``.

    :param parent: Its parent's process id.
    :param started: Ticks since the boot; with the id it names one process for good.
    :param state: The kernel's letter.
    :param cpu_seconds: User and system time, its own and that of ended children.
    """

    pid: int
    parent: int
    started: int
    state: str
    cpu_seconds: float

    @property
    def is_stopped(self) -> bool:
        """Tell whether it is stopped, by a signal or by a debugger."""
        return self.state in _STOPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """
    A driver that is certainly alive.

    :param stopped: A stopped process with the driver's token, if there is one.
    """

    leader: int
    stopped: int | None
    cpu_seconds: float


def glance(epoch: Epoch, launch: Launch | None) -> Glance | None:
    """Return what is seen of a driver whose leader is where it was recorded, else ``None``."""
    if launch is None or not HAS_PROC:
        return None
    # The recorded start time need not fit: it moves when the clock is set, and only the token
    # makes a process the driver's.
    leader = read_life(launch.pid)
    if leader is None or not _carries(launch.pid, epoch.token):
        return None
    members = [leader, *_FAMILIES.below(leader)]
    stopped = (
        member.pid
        for member in members
        if member.is_stopped and (member is leader or _carries(member.pid, epoch.token))
    )
    return Glance(
        leader=leader.pid,
        stopped=next(stopped, None),
        cpu_seconds=sum(member.cpu_seconds for member in members),
    )


def read_life(pid: int) -> Life | None:
    """Return what the kernel says of a process, ``None`` when it has none of that id."""
    try:
        line = _read(f"/proc/{pid}/stat", _STAT_BYTES)
        # The name before the parenthesis may hold anything, spaces and parentheses too.
        told = line[line.rindex(b")") + 2 :].split()
        return Life(
            pid=pid,
            parent=int(told[1]),
            started=int(told[19]),
            state=told[0].decode("ascii"),
            cpu_seconds=sum(map(int, told[11:15])) / _TICKS,
        )
    except (OSError, ValueError, IndexError):
        return None


class Families:
    """Which processes are below which, read for all at once and kept for two seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._births: dict[int, int] = {}
        self._children: dict[int, list[int]] = {}

    def below(self, leader: Life) -> Iterator[Life]:
        """Yield the living processes that descend from a leader."""
        births, children = self._table(leader)
        waiting = list(children.get(leader.pid, ()))
        while waiting:
            pid = waiting.pop()
            waiting += children.get(pid, ())
            life = read_life(pid)
            # Another start time: the id belongs to somebody else by now.
            if life is not None and life.started == births[pid] and life.state != _ZOMBIE:
                yield life

    def _table(self, leader: Life) -> tuple[dict[int, int], dict[int, list[int]]]:
        with self._lock:
            is_known = self._births.get(leader.pid) == leader.started
            if not is_known or time.monotonic() - self._read_at > FAMILY_AGE:
                self._births, self._children = _read_table()
                self._read_at = time.monotonic()
            return self._births, self._children


def _read_table() -> tuple[dict[int, int], dict[int, list[int]]]:
    births: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # thousands of names; a Path for each is slow
        life = read_life(int(name)) if name.isdigit() else None
        if life is not None:
            births[life.pid] = life.started
            children.setdefault(life.parent, []).append(life.pid)
    return births, children


def _carries(pid: int, token: str) -> bool:
    try:
        command = _read(f"/proc/{pid}/cmdline", _COMMAND_BYTES)
    except OSError:
        return False
    return f"\0{TOKEN_OPTION}\0{token}\0".encode() in command


def _read(path: str, limit: int) -> bytes:
    # A plain read: the file objects of Python cost several times as much as the kernel's answer.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, limit)
    finally:
        os.close(file)


_FAMILIES: Final = Families()
