"""
The processes of a driver: found by token, and watched through ``/proc``.

A process is a driver's when its command line has ``--token`` followed by the epoch's mark, a digest
of its token, as two arguments, and it runs as the driver's user, or when it descends from such a
process. Every user of the host can read a command line and start a process with the same arguments;
as another user it does not count. The recorded process id and start time only say where to look
first. Zombies have run their last instruction and do not count.

Most looks find the driver unchanged, from a few small files: the leader's command line carries the
mark, and every process below it has its state and CPU time in one line. The process tree is read
for all drivers of the host at once and at most every two seconds. A glance only ever proves
"alive"; all other cases need a full look at the process table.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Self

import psutil

from airflow_streaming.launch.port import TOKEN_OPTION
from airflow_streaming.model.records.epoch import Epoch, Launch

START_TOLERANCE: Final = 2.0
"""Seconds by which two readings of one start time may differ: the kernel counts from a boot time
that moves when the clock is set."""

MAX_PID: Final = 2**31 - 1

_STARTING_LOOKS: Final = 20
_STARTING_REST: Final = 0.01
"""Seconds between two looks at a process that is starting a program."""

HAS_PROC: Final = Path("/proc/self/stat").exists()
FAMILY_AGE: Final = 2.0
"""Seconds for which it is taken as known who is below whom. A process born since is missed for that
long: its CPU time is, which is not judged by in less than half a minute."""
_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_COMMAND_BYTES: Final = 2**16
"""A token further behind is not seen, and a full look finds it."""
_STAT_BYTES: Final = 4096
_STOPPED: Final = frozenset({"T", "t"})
_ZOMBIE: Final = "Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessScan:
    """
    The result of one scan of the process table.

    :param members: The driver's processes, its leader first.
    :param is_complete: Whether no process that could be the driver's was hidden from us.
    """

    members: tuple[psutil.Process, ...] = ()
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHandle:
    """
    Where a driver's processes are looked for first.

    :param pid: Leader of the driver's process group.
    :param started: Start time of that process in seconds since the Unix epoch.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, process: psutil.Process) -> Self:
        return cls(pid=process.pid, started=process.create_time())

    @classmethod
    def recorded(cls, launch: Launch | None) -> Self | None:
        """Return the handle in a launch record; ``None`` if it is missing or invalid."""
        if launch is None:
            return None
        try:
            pid, started = int(launch.handle["pid"]), float(launch.handle["started"])
        except (KeyError, ValueError):
            return None
        # The record may be damaged or forged; it only says where to look, the token decides.
        can_be = 0 < pid <= MAX_PID and math.isfinite(started)
        return cls(pid=pid, started=started) if can_be else None

    def to_dict(self) -> dict[str, str]:
        return {"pid": str(self.pid), "started": repr(self.started)}


def look(epoch: Epoch, launch: Launch | None) -> ProcessScan:
    """Find the driver's processes, in the whole table only when the leader is not there."""
    leader = _leader(epoch, launch)
    if leader is not None:
        return ProcessScan(members=(leader, *_descendants(leader)))
    first = scan(epoch, launch)
    if first.members:
        return first
    # A process may have handed its token to a child that was born after its place was passed.
    return scan(epoch, launch)


def scan(epoch: Epoch, launch: Launch | None) -> ProcessScan:
    """Search the whole process table for the epoch's token."""
    roots: list[psutil.Process] = []
    owner = owner_of(epoch, launch)
    others_matter = owner != os.geteuid()
    is_complete = not others_matter or _sees_all_processes()
    for process in psutil.process_iter():
        try:
            if carries(process, epoch, owner):
                roots.append(process)
        except psutil.AccessDenied:
            if others_matter and not _is_older(process, epoch):
                is_complete = False
    roots.sort(key=_leadership)
    members = {p.pid: p for root in roots for p in (root, *_descendants(root))}
    return ProcessScan(members=tuple(members.values()), is_complete=is_complete)


def carries(process: psutil.Process, epoch: Epoch, owner: int | None) -> bool:
    """
    Tell whether a process has the epoch's mark on its command line; a zombie's is empty.

    :param owner: The user it must run as; ``None`` where that is not known.
    :raises psutil.AccessDenied: its command line is kept from us.
    """
    try:
        pairs = pairwise(_command_of(process))
        if not epoch.is_carried_by(value for option, value in pairs if option == TOKEN_OPTION):
            return False
        # A program that changes its user was started by another one.
        return owner is None or set(process.uids()) == {owner}
    except psutil.NoSuchProcess:
        return False


def _command_of(process: psutil.Process) -> list[str]:
    """
    Return a command line; for a program in the middle of its start, wait for it.

    Between the old program and the new one Linux shows none (``begin_new_exec`` and
    ``create_elf_tables`` of its sources), for microseconds, or as long as the process waits for a
    core. ``spark-submit`` starts programs twice in one process, and a driver that is not seen
    counts as dead.
    """
    for _ in range(_STARTING_LOOKS):
        command = process.cmdline()
        if command or process.status() == psutil.STATUS_ZOMBIE or not _has_program(process):
            return command
        time.sleep(_STARTING_REST)
    return []


def _has_program(process: psutil.Process) -> bool:
    # A kernel thread has none, and another user's is not readable.
    try:
        return bool(process.exe())
    except psutil.AccessDenied:
        return False


def owner_of(epoch: Epoch, launch: Launch | None) -> int | None:
    """Return the user an epoch's driver runs as, ``None`` where that is not known."""
    if epoch.owner is not None:
        return epoch.owner
    # The launcher creates the log and starts the driver as one user.
    with contextlib.suppress(OSError):
        return Path(launch.log).stat().st_uid if launch is not None and launch.log else None
    return None


def _leader(epoch: Epoch, launch: Launch | None) -> psutil.Process | None:
    handle = ProcessHandle.recorded(launch)
    if handle is None:
        return None
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(handle.pid)
        if abs(process.create_time() - handle.started) > START_TOLERANCE:
            return None
        if carries(process, epoch, owner_of(epoch, launch)) or _is_half_dead(process):
            return process
    return None


def _is_half_dead(process: psutil.Process) -> bool:
    # The first thread of a killed process can be a zombie while another one still hangs in a
    # write to a file system that does not answer. Such a process may yet change files.
    return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() > 1


def _descendants(process: psutil.Process) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        for child in process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.status() != psutil.STATUS_ZOMBIE:
                    yield child


def _leadership(process: psutil.Process) -> tuple[bool, float]:
    with contextlib.suppress(psutil.Error, OSError):
        return os.getsid(process.pid) != process.pid, process.create_time()
    return True, 0.0


def _sees_all_processes() -> bool:
    # ``/proc`` can be mounted so that other users' processes are not listed; the first process of
    # the system is always there and usually root's.
    return 1 in psutil.pids()


def _is_older(process: psutil.Process, epoch: Epoch) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.create_time() < epoch.created_at.timestamp() - START_TOLERANCE
    return False


@dataclass(frozen=True, slots=True)
class ProcStat:
    """
    A line of ``/proc/<pid>/stat``.

    :param parent: Its parent's process id.
    :param started: Ticks since the boot; with the id it identifies one process for good.
    :param state: The kernel's letter.
    :param cpu_seconds: User and system time, its own and its ended children's.
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
class ProcessTree:
    """
    A driver that is certainly alive.

    :param stopped: A stopped process with the driver's token, if there is one.
    """

    leader: int
    stopped: int | None
    cpu_seconds: float


def glance(epoch: Epoch, launch: Launch | None) -> ProcessTree | None:
    """Return the processes of a driver whose leader is at its recorded id, else ``None``."""
    handle = ProcessHandle.recorded(launch)
    if handle is None or not HAS_PROC:
        return None
    # The recorded start time need not fit: it moves when the clock is set, and only the token
    # makes a process the driver's.
    leader = read_life(handle.pid)
    if leader is None or not is_drivers(epoch, handle.pid):
        return None
    members = [leader, *_FAMILIES.below(leader)]
    stopped = (
        member.pid
        for member in members
        if member.is_stopped and (member is leader or _carries(member.pid, epoch))
    )
    return ProcessTree(
        leader=leader.pid,
        stopped=next(stopped, None),
        cpu_seconds=sum(member.cpu_seconds for member in members),
    )


def is_drivers(epoch: Epoch, pid: int) -> bool:
    """Tell whether the process with this id carries the epoch's mark and runs as its user."""
    if not _carries(pid, epoch):
        return False
    return epoch.owner is None or _users(pid) == {epoch.owner}


def read_life(pid: int) -> ProcStat | None:
    """Read a process's status from the kernel; ``None`` if the id is unused."""
    try:
        line = _read(f"/proc/{pid}/stat", _STAT_BYTES)
        # The name before the parenthesis may hold anything, spaces and parentheses too.
        told = line[line.rindex(b")") + 2 :].split()
        return ProcStat(
            pid=pid,
            parent=int(told[1]),
            started=int(told[19]),
            state=told[0].decode("ascii"),
            cpu_seconds=sum(map(int, told[11:15])) / _TICKS,
        )
    except (OSError, ValueError, IndexError):
        return None


class ProcessTable:
    """Which processes are below which, read for all at once and kept for two seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._births: dict[int, int] = {}
        self._children: dict[int, list[int]] = {}

    def below(self, leader: ProcStat) -> Iterator[ProcStat]:
        """Yield the living processes that descend from a leader."""
        births, children = self._table(leader)
        waiting = list(children.get(leader.pid, ()))
        while waiting:
            pid = waiting.pop()
            waiting += children.get(pid, ())
            life = read_life(pid)
            # Another start time: the id belongs to another process by now.
            if life is not None and life.started == births[pid] and life.state != _ZOMBIE:
                yield life

    def _table(self, leader: ProcStat) -> tuple[dict[int, int], dict[int, list[int]]]:
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


def _carries(pid: int, epoch: Epoch) -> bool:
    try:
        command = _read(f"/proc/{pid}/cmdline", _COMMAND_BYTES)
    except OSError:
        return False
    words = command.decode(errors="replace").split("\0")
    return epoch.is_carried_by(
        value for option, value in pairwise(words[:-1]) if option == TOKEN_OPTION
    )


def _users(pid: int) -> set[int]:
    """Return the real, the effective and the saved user of a process; none when it is gone."""
    try:
        lines = _read(f"/proc/{pid}/status", _STAT_BYTES).split(b"\n")
        return {
            int(part) for line in lines if line.startswith(b"Uid:") for part in line.split()[1:]
        }
    except (OSError, ValueError):
        return set()


def _read(path: str, limit: int) -> bytes:
    # A plain read: the file objects of Python cost several times as much as the kernel's answer.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, limit)
    finally:
        os.close(file)


_FAMILIES: Final = ProcessTable()
