"""Kill who carries an upgrade out, while one of its tasks is at work."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from typing import Final

import psutil

from tests.system.upgrades.play import UPGRADE, Play

# Airflow's usual waits before it believes that a component or a task is dead are minutes long.
QUICK: Final = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
}

_LONGEST_S: Final = 3.0
"""A task works for some seconds; the kill may fall on any line of it."""

_TITLE: Final = 20
"""Characters of a task's id that are sure to stand in the title of its worker."""


def kill_at(play: Play, run: str, task: str, kill: Callable[[str], str | None]) -> str | None:
    """
    Wait until a task is at work, let a moment pass, and kill.

    :param kill: Is given the id of the task instance and says what it killed.
    :return: What was killed; ``None`` when the task was over before.
    """
    killed: list[str] = []

    def is_done() -> bool:
        id_, state = _instance(play, run, f"upgrade.{task}")
        if state == "running":
            time.sleep(random.uniform(0.0, _LONGEST_S))
            killed.extend(filter(None, [kill(id_)]))
        return bool(killed) or state in ("success", "failed", "skipped", "upstream_failed")

    play.until(is_done, f"task {task} to be at work")
    return killed[0] if killed else None


def worker(play: Play) -> Callable[[str], str | None]:
    """Return what kills the worker of a task; the task itself is left without its supervisor."""

    def kill(id_: str) -> str | None:
        found = [p for p in play.stage.airflow.busy_workers() if id_[:_TITLE] in _title(p)]
        return _killed(found)

    return kill


def task(play: Play) -> Callable[[str], str | None]:
    """Return what kills the process of a task itself."""

    def kill(id_: str) -> str | None:
        everyone = play.stage.airflow.leftovers()
        return _killed([p for p in everyone if f"airflow worker -- {id_[:_TITLE]}" in _title(p)])

    return kill


def scheduler(play: Play) -> Callable[[str], str | None]:
    """Return what kills the scheduler with all of its workers and starts another."""
    return lambda _: play.stage.airflow.replace_component("scheduler")


def _instance(play: Play, run: str, task_id: str) -> tuple[str, str | None]:
    path = f"/api/v2/dags/{UPGRADE}/dagRuns/{run}/taskInstances/{task_id}"
    found = play.stage.airflow.get(path)
    return str(found["id"]), found["state"]


def _title(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _killed(found: list[psutil.Process]) -> str | None:
    for process in found[:1]:
        with contextlib.suppress(psutil.Error):
            process.kill()
            return f"process {process.pid}"
    return None
