"""
Whether the batch in progress is working: Spark's jobs and tasks, CPU time and phase.

The data is read from Spark's status store, which the web page and the REST interface show, and
works where both are switched off. One call returns all running jobs as the JSON of the REST
interface, whose names are public and the same from 3.5 to 4.3.

A long batch is slow while it shows signs of work and stalled without them. A sign is a finished
task, a new job or stage, moved records, or CPU time of the driver's processes for this batch. Tasks
on other machines show the first three signs only.

Durations are sums of the steps between beats. A step counts for at most twice the longest rest
between beats. So a driver that was suspended for an hour does not count this hour as silence.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.driver.jvm import active_context
from airflow_streaming.model.progress import amount, objects, whole

_MOVED: Final = (
    "inputRecords",
    "outputRecords",
    "shuffleReadRecords",
    "shuffleWriteRecords",
    "executorCpuTime",
)

BUSY_SHARE: Final = 0.2
"""Share of a core over a beat that counts as work. A driver at rest was measured to use 0.005 of a
core, and its heartbeat takes 0.05 at most."""
LONGEST_STEP: Final = 20.0
"""Seconds; the longest rest between two beats is 10 s."""


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
    """The activity of one query's tasks; ``marks`` and ``moved`` change when there is work."""

    marks: Hashable = None
    moved: float | None = None
    active_tasks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivitySnapshot:
    """
    A beat's snapshot of the application, for all queries at once.

    :param at: Monotonic seconds.
    :param cpu: Seconds of CPU time the driver's processes have used.
    :param jobs: Running jobs; ``None`` when they could not be read.
    :param newest: Returns the id of a group's newest job.
    :param moved: Returns how many records the tasks of some stages have moved.
    """

    at: float
    cpu: float | None = None
    jobs: tuple[Job, ...] | None = None
    newest: Callable[[str], int] = lambda group: -1
    moved: Callable[[Sequence[int]], float | None] = lambda stages: None

    def work_of(self, group: str, *, others: Collection[str], quiet: bool) -> Work:
        """
        Return the activity of a query's tasks.

        :param group: The query's run id.
        :param others: Run ids of other processing queries. If empty, jobs outside any query's group
            (of a script that sets its own groups) count for this query.
        :param quiet: Read more detail, because there has been no other sign of work for a while.
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
        self._faults = ErrorBoundary()
        self._context: Any = None
        self._store: Any = None
        self._tracker: Any = None
        self._mapper: Any = None
        self._running: Any = None

    def look(self) -> ActivitySnapshot:
        """Look once, for all queries; what cannot be seen is left out."""
        jobs, cpu = None, None
        with self._faults.contained("Reading the jobs that run"):
            jobs = self.running()
        with self._faults.contained("Reading the CPU time"):
            cpu = self._cpu()
        return ActivitySnapshot(
            at=time.monotonic(), cpu=cpu, jobs=jobs, newest=self.newest, moved=self.moved
        )

    def running(self) -> tuple[Job, ...] | None:
        """Return the running jobs; ``None`` while there is no Spark context."""
        if not self._connect():
            return None
        found = self._store.jobsList(self._running)
        # Most beats of an idle stream end here, at a fifth of the cost.
        if found.isEmpty():
            return ()
        return jobs_in(self._mapper.writeValueAsString(found))

    def executors(self) -> int | None:
        """Return how many executors there are without the driver; ``None`` without a context."""
        if not self._connect():
            return None
        # The driver is among them.
        return max(0, len(self._tracker.getExecutorInfos()) - 1)

    def executor_list(self) -> str | None:
        """Return all executors that Spark remembers, as JSON; ``None`` without a context."""
        if not self._connect():
            return None
        text: str = self._mapper.writeValueAsString(self._store.executorList(False))
        return text

    def conf(self) -> dict[str, str]:
        """Return the configuration of the application; empty without a context."""
        return dict(self._context.getConf().getAll()) if self._connect() else {}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRun:
    """
    A run of a query's processing trigger: it plans and runs one batch, or finds no data.

    :param started: Start by the JVM's clock; distinguishes runs for the same batch.
    """

    batch: int | None = None
    started: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """
    A beat's observation of a query.

    :param at: Monotonic seconds.
    :param run: The trigger's current run; ``None`` while the query waits.
    :param marks: Changes whenever a task finishes, or a job or stage begins; ``None``: not known.
    :param moved: Records moved by the running tasks; ``None``: not known.
    :param active_tasks: Running tasks; ``None``: not known.
    :param cpu: Seconds of CPU time the driver's processes have used; ``None``: not known.
    :param ready: No batch is in work although the source has data.
    :param alone: No other query is processing, so all CPU time counts for this query even without
        tasks.
    """

    at: float
    run: TriggerRun | None = None
    batches: int = 0
    marks: Hashable = None
    moved: float | None = None
    active_tasks: int | None = None
    cpu: float | None = None
    ready: bool = False
    alone: bool = False


class BatchActivity:
    """Counts for one run of a query how long its batch has been in work, quiet, or uncommitted."""

    def __init__(self) -> None:
        self._last: Beat | None = None
        self._batch_for = self._quiet_for = self._uncommitted_for = self._ready_for = 0.0
        self._has_evidence = False

    @property
    def batch_for_s(self) -> float | None:
        """Return how long the batch in work has been in work; ``None`` while none is."""
        return None if self._run is None else self._batch_for

    @property
    def quiet_for_s(self) -> float | None:
        """Return how long it has shown no sign of work; ``None`` where no sign could be seen."""
        return self._quiet_for if self._run is not None and self._has_evidence else None

    @property
    def committed_ago_s(self) -> float | None:
        """Return the time since the last commit seen, or since the first beat."""
        return None if self._last is None else self._uncommitted_for

    @property
    def ready_for_s(self) -> float | None:
        """Return how long the source has had data and no batch was in work."""
        return None if self._last is None else self._ready_for

    @property
    def planned_batch(self) -> int | None:
        return None if self._run is None else self._run.batch

    @property
    def active_tasks(self) -> int | None:
        return None if self._last is None else self._last.active_tasks

    def step(self, beat: Beat) -> None:
        """Take the next beat."""
        before, self._last = self._last, beat
        if before is None:
            return
        step = min(max(0.0, beat.at - before.at), LONGEST_STEP)
        committed = beat.batches > before.batches
        self._uncommitted_for = 0.0 if committed else self._uncommitted_for + step
        waits = beat.ready and before.ready and not committed
        self._ready_for = self._ready_for + step if waits else 0.0
        if beat.run is None or beat.run != before.run:
            self._batch_for = self._quiet_for = 0.0
            self._has_evidence = False
            return
        self._batch_for += step
        signs = signs_of_work(before, beat)
        self._has_evidence = self._has_evidence or signs is not None
        self._quiet_for = 0.0 if signs else self._quiet_for + step

    @property
    def _run(self) -> TriggerRun | None:
        return None if self._last is None else self._last.run


def signs_of_work(before: Beat, beat: Beat) -> bool | None:
    """Tell whether there was work between two beats of one run; ``None`` when nothing could tell."""
    if before.marks is None or beat.marks is None:
        tasks = None
    else:
        tasks = before.marks != beat.marks or _has_moved(before, beat)
    busy = _is_busy(before, beat) if beat.active_tasks or beat.alone else None
    if tasks is None and busy is None:
        return None
    return bool(tasks or busy)


def _has_moved(before: Beat, beat: Beat) -> bool:
    return before.moved is not None and beat.moved is not None and before.moved != beat.moved


def _is_busy(before: Beat, beat: Beat) -> bool | None:
    if before.cpu is None or beat.cpu is None or beat.at <= before.at:
        return None
    return (beat.cpu - before.cpu) / (beat.at - before.at) >= BUSY_SHARE
