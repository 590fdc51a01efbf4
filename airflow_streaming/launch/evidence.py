"""Sighting → Process: what the processes that were found say about the driver."""

from __future__ import annotations

import contextlib
from typing import Final

import psutil

from airflow_streaming.core.epoch import Epoch, Host, Launch
from airflow_streaming.core.health import Process, ProcessState
from airflow_streaming.launch.processes import Sighting, carries

_STOPPED: Final = frozenset({psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP})


def describe(seen: Sighting, epoch: Epoch, launch: Launch | None, host: Host) -> Process:
    """Tell what a look at this host means; ``GONE`` only when nothing was hidden from us."""
    if seen.members:
        return _describe_alive(seen, epoch, launch, host)
    if not seen.is_complete:
        return Process.unseen(
            f"no process with the driver's token was found on host {host.name}, but processes of "
            "other users are hidden from this user"
        )
    lost = f"process {launch.pid} is gone and " if launch is not None else ""
    return Process.gone(f"{lost}no process on host {host.name} carries the driver's token")


def _describe_alive(seen: Sighting, epoch: Epoch, launch: Launch | None, host: Host) -> Process:
    leader = seen.members[0]
    words = f"process {leader.pid} is alive on host {host.name}"
    if launch is not None and leader.pid != launch.pid:
        words = f"process {launch.pid} is gone, but its {words}"
    state = ProcessState.RUNNING
    for stopped in seen.members:
        if _is_stopped(stopped, epoch.token, leader):
            state = ProcessState.SUSPENDED
            words = f"process {stopped.pid} is stopped on host {host.name}"
            break
    return Process(state=state, detail=words, cpu_seconds=_cpu_seconds(seen))


def _is_stopped(process: psutil.Process, token: str, leader: psutil.Process) -> bool:
    # Members without the token are Python workers; a debugger on one does not stop the driver.
    with contextlib.suppress(psutil.Error):
        return process.status() in _STOPPED and (process == leader or carries(process, token))
    return False


def _cpu_seconds(seen: Sighting) -> float:
    total = 0.0
    for process in seen.members:
        with contextlib.suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])  # user and system, its own and ended children's
    return total
