"""What can be killed: three parts of a driver, three of Airflow."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Final

from demo.processes import kill_group
from demo.stage import Stage

Kill = Callable[[Stage], str | None]
"""Kills one thing and says what; ``None`` when there is nothing to kill just now."""


def driver_jvm(stage: Stage) -> str | None:
    """Kill the JVM alone: its Python process has to notice."""
    leader = stage.stream.leader
    return _kill(leader) if leader is not None and leader in _alive(stage) else None


def driver_python(stage: Stage) -> str | None:
    """Kill the Python process alone: the JVM has to notice."""
    leader = stage.stream.leader
    others = [pid for pid in _alive(stage) if leader is not None and pid != leader]
    return _kill(others[0]) if others else None


def driver_group(stage: Stage) -> str | None:
    """Kill all of the driver in one stroke, as when a host runs out of memory."""
    leader = stage.stream.leader
    if leader is None or leader not in _alive(stage):
        return None
    kill_group(leader)
    return f"group {leader}"


def triggerer(stage: Stage) -> str | None:
    """Kill the triggerer and start another."""
    return stage.airflow.replace_component("triggerer")


def scheduler(stage: Stage) -> str | None:
    """Kill the scheduler with its workers and start another."""
    return stage.airflow.replace_component("scheduler")


def worker(stage: Stage) -> str | None:
    """
    Kill a worker in the middle of its work: it is bringing back a stream whose JVM was killed.

    An idle worker is no victim: LocalExecutor's workers wait for tasks by turns under one lock, and
    one that is killed holding it leaves all others waiting for ever, whatever the dags are.
    """
    busy = stage.airflow.busy_workers()
    if busy:
        # Launching takes the worker about a second; the kill may fall on any line of it.
        time.sleep(random.uniform(0.0, 1.0))
        return _kill(busy[0].pid)
    if stage.stream.is_well():
        driver_jvm(stage)
    return None


def _alive(stage: Stage) -> list[int]:
    return [pid for pids in stage.drivers.alive().values() for pid in pids]


def _kill(pid: int) -> str | None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return f"process {pid}"
    return None


KILLS: Final[dict[str, Kill]] = {
    "driver JVM": driver_jvm,
    "driver Python": driver_python,
    "driver group": driver_group,
    "worker": worker,
    "triggerer": triggerer,
    "scheduler": scheduler,
}
RUNS_ON: Final = frozenset({"triggerer", "scheduler"})
"""Kills that the driver survives; after the others a new epoch has to begin."""
