"""
Which processes of this machine belong to a driver.

A process is a driver's when its command line has ``--token`` followed by the epoch's token, as two
arguments, or when it descends from such a process. The recorded process id and start time only say
where to look first. Zombies have run their last instruction and do not count.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

from airflow_streaming.core.epoch import Epoch, Launch
from airflow_streaming.launch.port import TOKEN_OPTION

START_TOLERANCE: Final = 2.0
"""Seconds by which two readings of one start time may differ: the kernel counts from a boot time
that moves when the clock is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """
    What one look at the process table found.

    :param members: The driver's processes, its leader first.
    :param is_complete: Whether no process that could be the driver's was hidden from us.
    """

    members: tuple[psutil.Process, ...] = ()
    is_complete: bool = True


def look(epoch: Epoch, launch: Launch | None) -> Sighting:
    """Find the driver's processes, in the whole table only when the leader is not there."""
    leader = _leader(epoch, launch)
    if leader is not None:
        return Sighting(members=(leader, *_descendants(leader)))
    first = scan(epoch, launch)
    if first.members:
        return first
    # A process may have handed its token to a child that was born after its place was passed.
    return scan(epoch, launch)


def scan(epoch: Epoch, launch: Launch | None) -> Sighting:
    """Search the whole process table for the epoch's token."""
    roots: list[psutil.Process] = []
    others_matter = not _runs_as_this_user(launch)
    is_complete = not others_matter or _sees_all_processes()
    for process in psutil.process_iter():
        try:
            if carries(process, epoch.token):
                roots.append(process)
        except psutil.AccessDenied:
            if others_matter and not _is_older(process, epoch):
                is_complete = False
    roots.sort(key=_leadership)
    members = {p.pid: p for root in roots for p in (root, *_descendants(root))}
    return Sighting(members=tuple(members.values()), is_complete=is_complete)


def carries(process: psutil.Process, token: str) -> bool:
    """
    Tell whether a process has the token on its command line; a zombie's is empty.

    :raises psutil.AccessDenied: its command line is kept from us.
    """
    try:
        return (TOKEN_OPTION, token) in pairwise(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _leader(epoch: Epoch, launch: Launch | None) -> psutil.Process | None:
    if launch is None:
        return None
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(launch.pid)
        if abs(process.create_time() - launch.started) > START_TOLERANCE:
            return None
        if carries(process, epoch.token) or _is_half_dead(process):
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


def _runs_as_this_user(launch: Launch | None) -> bool:
    # The launcher creates the log and starts the driver as one user, so that other users'
    # processes, which may be hidden from us, cannot be the driver's.
    with contextlib.suppress(OSError):
        return launch is not None and Path(launch.log).stat().st_uid == os.geteuid()
    return False


def _sees_all_processes() -> bool:
    # ``/proc`` can be mounted so that other users' processes are not listed; the first process of
    # the system is always there and usually root's.
    return 1 in psutil.pids()


def _is_older(process: psutil.Process, epoch: Epoch) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.create_time() < epoch.created_at.timestamp() - START_TOLERANCE
    return False
