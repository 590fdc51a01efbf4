"""What can be killed: three parts of a driver, three of Airflow."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Final

from demo.airflow import kill_group
from demo.stage import Stage

Kill = Callable[[Stage], str | None]
"""Kills one thing and says what; ``None`` when there is nothing to kill just now."""


def driver_jvm(stage: Stage) -> str | None:
    """Kill the JVM alone: its Python process has to notice."""
    launch = stage.stream.launch
    return _kill(launch.pid) if launch and launch.pid in _alive(stage) else None


def driver_python(stage: Stage) -> str | None:
    """Kill the Python process alone: the JVM has to notice."""
    launch = stage.stream.launch
    others = [pid for pid in _alive(stage) if launch is not None and pid != launch.pid]
    return _kill(others[0]) if others else None


def driver_group(stage: Stage) -> str | None:
    """Kill all of the driver in one stroke, as when a host runs out of memory."""
    launch = stage.stream.launch
    if launch is None or launch.pid not in _alive(stage):
        return None
    kill_group(launch.pid)
    return f"group {launch.pid}"


def triggerer(stage: Stage) -> str | None:
    """Kill the triggerer and start another."""
    return stage.airflow.replace_component("triggerer")


def scheduler(stage: Stage) -> str | None:
    """Kill the scheduler with its workers and start another."""
    return stage.airflow.replace_component("scheduler")


def worker(stage: Stage) -> str | None:
    """Kill one worker process, a busy one if there is any; the executor starts another."""
    workers = stage.airflow.workers()
    workers.sort(key=lambda process: "<idle>" in " ".join(process.cmdline()))
    return _kill(workers[0].pid) if workers else None


def _alive(stage: Stage) -> list[int]:
    return [pid for pids in stage.drivers.alive().values() for pid in pids]


def _kill(pid: int) -> str | None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return f"process {pid}"
    return None


DRIVER_KILLS: Final[dict[str, Kill]] = {
    "driver JVM": driver_jvm,
    "driver Python": driver_python,
    "driver group": driver_group,
}
AIRFLOW_KILLS: Final[dict[str, Kill]] = {
    "triggerer": triggerer,
    "worker": worker,
    "scheduler": scheduler,
}
KILLS: Final[dict[str, Kill]] = {**DRIVER_KILLS, **AIRFLOW_KILLS}
