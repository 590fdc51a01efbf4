"""
Jobs and tasks of a Spark application, for signs of work.

Asked is Spark's own status store, which holds what the web page and the REST interface show, also
where both are switched off. One question brings all running jobs as the JSON of the REST interface,
whose names are public and the same from 3.5 to 4.3.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.core.reported import amount, objects, whole
from airflow_streaming.driver.faults import Faults
from airflow_streaming.driver.jvm import active_context

_MOVED: Final = (
    "inputRecords",
    "outputRecords",
    "shuffleReadRecords",
    "shuffleWriteRecords",
    "executorCpuTime",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """
    A job that runs.

    :param group: Its job group, which is the run id of the query it belongs to.
    :param active: Tasks that run.
    :param done: Changes with every task that ends and every stage that begins.
    """

    id: int
    group: str | None = None
    active: int = 0
    done: tuple[int, ...] = ()
    stages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the tasks of one query show; ``marks`` and ``moved`` change when there is work."""

    marks: Hashable = None
    moved: float | None = None
    active_tasks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """
    What one beat sees of the application, for all queries at once.

    :param at: Monotonic seconds.
    :param cpu: Seconds of CPU time the driver's processes have used.
    :param jobs: Jobs that run; ``None`` when they could not be seen.
    :param newest: Returns the id of a group's newest job.
    :param moved: Returns how much the tasks of some stages have moved.
    """

    at: float
    cpu: float | None = None
    jobs: tuple[Job, ...] | None = None
    newest: Callable[[str], int] = lambda group: -1
    moved: Callable[[Sequence[int]], float | None] = lambda stages: None

    def work_of(self, group: str, *, others: Collection[str], quiet: bool) -> Work:
        """
        Return what the tasks of a query show.

        :param group: The query's run id.
        :param others: Run ids of other queries that are processing. Without any, jobs of no query,
            as of a script that names its own groups, are taken for this one's.
        :param quiet: Look closer, because there has been no other sign of work for a while.
        """
        if self.jobs is None:
            return Work()
        mine = [job for job in self.jobs if job.group == group or not others]
        active = sum(job.active for job in mine)
        # A batch of short jobs may run none at any beat, and yet have run many since the last.
        newest = self.newest(group) if not mine else max(job.id for job in mine)
        stages = [stage for job in mine for stage in job.stages]
        return Work(
            marks=(newest, tuple(sorted((job.id, job.done) for job in mine))),
            moved=self.moved(stages) if active and quiet else None,
            active_tasks=active,
        )


class JobsView:
    """
    The jobs of the application that this process drives.

    :param cpu: Returns the seconds of CPU time that the driver's processes have used.
    """

    def __init__(self, cpu: Callable[[], float]) -> None:
        self._cpu = cpu
        self._faults = Faults()
        self._context: Any = None
        self._store: Any = None
        self._tracker: Any = None
        self._mapper: Any = None
        self._running: Any = None

    def look(self) -> Sight:
        """Look once, for all queries; what cannot be seen is left out."""
        jobs, cpu = None, None
        with self._faults.contained("Reading the jobs that run"):
            jobs = self.running()
        with self._faults.contained("Reading the CPU time"):
            cpu = self._cpu()
        return Sight(at=time.monotonic(), cpu=cpu, jobs=jobs, newest=self.newest, moved=self.moved)

    def running(self) -> tuple[Job, ...] | None:
        """Return the jobs that run; ``None`` while there is no Spark context."""
        if not self._connect():
            return None
        found = self._store.jobsList(self._running)
        # Most beats of an idle stream end here, at a fifth of the cost.
        if found.isEmpty():
            return ()
        return jobs_in(self._mapper.writeValueAsString(found))

    def newest(self, group: str) -> int:
        """Return the id of the newest job of a group; -1 before the first."""
        if not self._connect():
            return -1
        ids = self._tracker.getJobIdsForGroup(group)
        return int(ids[0]) if len(ids) else -1

    def moved(self, stages: Sequence[int]) -> float | None:
        """Return how much the running tasks of stages have moved: records, and CPU time."""
        if not self._connect():
            return None
        return moved_in(self._mapper.writeValueAsString(self._store.activeStages()), stages)

    def _connect(self) -> bool:
        context = active_context()
        if context is None:
            return False
        if context is not self._context:
            spark, jvm = context._jsc.sc(), context._jvm
            writer = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter()
            running = jvm.java.util.ArrayList()
            running.add(jvm.org.apache.spark.JobExecutionStatus.RUNNING)
            self._store, self._tracker = spark.statusStore(), spark.statusTracker()
            self._mapper, self._running = writer.mapper(), running
            self._context = context
        return True


def jobs_in(text: str) -> tuple[Job, ...]:
    """Read the JSON of running jobs."""
    found = []
    for job in objects(json.loads(text)):
        id, group, stages = whole(job.get("jobId")), job.get("jobGroup"), job.get("stageIds")
        if id is None:
            continue
        counts = ("numCompletedTasks", "numFailedTasks", "numActiveStages", "numCompletedStages")
        found.append(
            Job(
                id=id,
                group=group if isinstance(group, str) else None,
                active=whole(job.get("numActiveTasks")) or 0,
                done=tuple(whole(job.get(name)) or 0 for name in counts),
                stages=tuple(s for s in stages if isinstance(s, int))
                if isinstance(stages, list)
                else (),
            )
        )
    return tuple(found)


def moved_in(text: str, stages: Sequence[int]) -> float:
    """Read from the JSON of active stages how much some of them have moved."""
    wanted = [s for s in objects(json.loads(text)) if s.get("stageId") in stages]
    return sum(amount(stage.get(name)) or 0.0 for stage in wanted for name in _MOVED)
