"""Glance or Sighting → Process: what the processes that were found say about the driver."""

from __future__ import annotations

import contextlib
from typing import Final

import psutil

from airflow_streaming.core.epoch import Epoch, Host, Launch
from airflow_streaming.core.observation import Process, ProcessState
from airflow_streaming.launch.glance import Glance
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


def describe_glance(seen: Glance, host: Host) -> Process:
    """Tell what a glance at a living driver means."""
    return _alive(seen.leader, seen.stopped, host, lost=None, cpu_seconds=seen.cpu_seconds)


def _describe_alive(seen: Sighting, epoch: Epoch, launch: Launch | None, host: Host) -> Process:
    leader = seen.members[0]
    stopped = (member for member in seen.members if _is_stopped(member, epoch.token, leader))
    first = next(stopped, None)
    return _alive(
        leader.pid,
        first.pid if first is not None else None,
        host,
        lost=launch.pid if launch is not None and launch.pid != leader.pid else None,
        cpu_seconds=_cpu_seconds(seen),
    )


def _alive(
    leader: int, stopped: int | None, host: Host, *, lost: int | None, cpu_seconds: float
) -> Process:
    if stopped is not None:
        words = f"process {stopped} is stopped on host {host.name}"
        return Process(state=ProcessState.SUSPENDED, detail=words, cpu_seconds=cpu_seconds)
    words = f"process {leader} is alive on host {host.name}"
    if lost is not None:
        words = f"process {lost} is gone, but its {words}"
    return Process(state=ProcessState.RUNNING, detail=words, cpu_seconds=cpu_seconds)


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
