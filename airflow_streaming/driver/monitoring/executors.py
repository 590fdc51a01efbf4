"""
How many executors the application has, has lost and is waiting for.

Spark's status store remembers every executor with its failed tasks, and when and why an executor
was removed. It is read every ten seconds at about a millisecond; a lost executor needs no faster
report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.driver.monitoring.activity import JobsView
from airflow_streaming.driver.resizing.resize_watch import ResizeWatch
from airflow_streaming.model.progress import amount, objects, whole
from airflow_streaming.model.spark.conf import executors_wanted, has_executors
from airflow_streaming.model.status import ExecutorStatus

LOOK_EVERY: Final = 10.0
"""Seconds between two questions."""
_RECENT: Final = timedelta(hours=1)
_MAX_REASON: Final = 500


class ExecutorsView:
    """
    Asks Spark for its executors, not at every beat.

    :param clock: Monotonic seconds.
    """

    resizes: ResizeWatch | None = None
    """Changes of the size: the executors that the driver wants, and those that it has given back."""

    def __init__(self, jobs: JobsView, clock: Callable[[], float]) -> None:
        self._jobs, self._clock = jobs, clock
        self._faults = ErrorBoundary()
        self._asked: float | None = None
        self._none_since: float | None = None
        self._conf: Mapping[str, str] = {}
        self._told_failed = 0
        self._times = TaskTimes(0.0, 0.0)
        self.latest: ExecutorStatus | None = None
        """``None`` in local mode and before the first read."""

    def figures(self, *, with_failed: bool) -> dict[str, float]:
        """
        Return the figures that a batch has of the executors, by metric.

        :param with_failed: Also the tasks that failed since they were last asked for.
        """
        if self.latest is None:
            return {}
        found = {"lost_executors": float(self.latest.lost_last_hour)}
        if self.latest.wanted is not None:
            found["missing_executors"] = float(self.latest.missing)
        if with_failed:
            found["failed_tasks"] = float(max(0, self.latest.failed_tasks - self._told_failed))
            self._told_failed = self.latest.failed_tasks
        return found

    def look(self) -> None:
        """Ask Spark, when it is time to."""
        now = self._clock()
        if self._asked is None or now - self._asked >= LOOK_EVERY:
            self._asked = now
            with self._faults.contained("Reading the executors"):
                self.latest = self._ask(now)

    def _ask(self, now: float) -> ExecutorStatus | None:
        self._conf = self._conf or self._jobs.conf()
        if not self._conf or not has_executors(self._conf.get("spark.master", "")):
            return None
        text = self._jobs.executor_list()
        if text is None:
            return None
        resizes = self.resizes
        wanted = executors_wanted(self._conf) if resizes is None else resizes.executors
        found = executors_in(
            text,
            wanted=wanted,
            now=datetime.now(UTC),
            given_back=() if resizes is None else resizes.removed,
        )
        times = task_times(text)
        found, self._times = replace(found, gc_share=gc_share(self._times, times)), times
        if found.alive:
            self._none_since = None
            return found
        self._none_since = now if self._none_since is None else self._none_since
        return ExecutorStatus(
            alive=0,
            wanted=found.wanted,
            lost_last_hour=found.lost_last_hour,
            failed_tasks=found.failed_tasks,
            none_for_s=round(now - self._none_since, 1),
            reason=found.reason,
        )


class TaskTimes(NamedTuple):
    """Milliseconds of all tasks of the application, and of garbage collection in them."""

    tasks: float
    gc: float


def task_times(text: str) -> TaskTimes:
    """Return the times in a list of Spark's ``ExecutorSummary``, of removed executors too."""
    listed = [one for one in objects(json.loads(text)) if one.get("id") != "driver"]
    return TaskTimes(
        sum(amount(one.get("totalDuration")) or 0.0 for one in listed),
        sum(amount(one.get("totalGCTime")) or 0.0 for one in listed),
    )


def gc_share(before: TaskTimes, now: TaskTimes) -> float | None:
    """Return the share of garbage collection between two looks; ``None`` where no task ended, or Spark forgot some."""
    tasks, gc = now.tasks - before.tasks, now.gc - before.gc
    return min(1.0, gc / tasks) if tasks > 0 and gc >= 0 else None


def executors_in(
    text: str, *, wanted: int | None, now: datetime, given_back: Collection[str] = ()
) -> ExecutorStatus:
    """
    Parse a list of Spark's ``ExecutorSummary``.

    :param text: The list as the REST API writes it, with the driver and removed executors.
    :param given_back: Executors that went for a smaller size: they are not lost.
    """
    listed = [one for one in objects(json.loads(text)) if one.get("id") != "driver"]
    lost = [one for one in listed if one.get("id") not in given_back]
    gone = [(moment, one) for one in lost if (moment := _removed(one)) is not None]
    gone.sort(key=lambda pair: pair[0])
    reason = gone[-1][1].get("removeReason") if gone else None
    return ExecutorStatus(
        alive=sum(one.get("isActive") is True for one in listed),
        wanted=wanted,
        lost_last_hour=sum(now - moment < _RECENT for moment, _ in gone),
        failed_tasks=sum(whole(one.get("failedTasks")) or 0 for one in listed),
        reason=" ".join(reason.split())[:_MAX_REASON] if isinstance(reason, str) else "",
    )


def _removed(executor: Mapping[str, Any]) -> datetime | None:
    told = executor.get("removeTime")
    if executor.get("isActive") is True or not isinstance(told, str):
        return None
    try:
        # As Spark's API writes times: 2026-03-01T12:00:00.000GMT
        return datetime.fromisoformat(told.removesuffix("GMT")).replace(tzinfo=UTC)
    except ValueError:
        return None
