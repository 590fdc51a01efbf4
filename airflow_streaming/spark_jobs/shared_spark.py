"""
A Spark for several short jobs, one after the other.

Most of the time of a short job is the start of its JVM. Jobs of one piece of work take turns in one JVM: the
plan of a script and its rehearsal, or the scripts of several streams. Each job
has a Python, a Spark context and a scratch folder of its own, so that no job meets another one's variables,
views, state or connections.

A job gets a new Spark where the running one cannot serve it: another runtime, configuration, list of files
or environment; a Spark that has ended; or files that the job before has left in the folders of the Spark.
The old one is ended first, because each takes the memory of a rehearsal.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final

from airflow_streaming.launch.environment import job_variables, write_private
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.shared import (
    JobCall,
    JobEnd,
    SharedOrder,
    call_name,
    end_name,
    ready_name,
)
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.spark_jobs.runner import (
    LOG,
    Job,
    Program,
    RunningJob,
    Task,
    code_of,
    started,
)
from airflow_streaming.spark_jobs.scratch import Scratch, scratch_folder

log: Final = logging.getLogger(__name__)
PREFIX: Final = "airflow-streaming-shared-"
READY_SECONDS: Final = 60.0
"""Time for a Spark to end the context of the job before; after it, the job gets a new Spark."""
_POLL: Final = 0.05
_WITHOUT_WORKERS: Final = frozenset({Job.PLAN})
"""Jobs that process no row, so that no Python worker is started."""
_ENTRY: Final = """\
import sys

from airflow_streaming.driver.jobs.shared import prepare
from airflow_streaming.driver.{module} import run

prepare(sys.argv[2:])
sys.exit(run(sys.argv[1:2]))
"""


class NewSpark(StrEnum):
    """Why a job gets a new Spark."""

    FIRST = "first"
    """There was none."""
    OTHER_NEEDS = "other_needs"
    ENDED = "ended"
    """The Spark has ended, or the job before did not end in it."""
    LEFTOVERS = "leftovers"
    """The job before has left files in the folders of the Spark."""
    NOT_READY = "not_ready"
    """The Spark did not end the context of the job before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """
    All that a Spark is started with; jobs with equal needs can take turns in one.

    :param program: Conf, environment and lists of files; the script and its arguments belong to a job.
    :param variables: Variables of this process that the code of the job may read.
    """

    runtime: Runtime
    program: Program
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    java_options: str = ""


def needs_of(task: Task, runtime: Runtime, program: Program | None) -> Needs:
    """Return the needs of a job."""
    given = program or Program(application="", source=b"")
    common = replace(
        given, application="", source=b"", arguments=(), left_out=(), output="", checkpoint=""
    )
    variables = job_variables(os.environ, code_of(given))
    return Needs(
        runtime=runtime, program=common, variables=variables, java_options=task.java_options
    )


def why_new(has: Needs, wanted: Needs, last: JobEnd | None, *, is_running: bool) -> NewSpark | None:
    """
    Return why a job needs another Spark than the one before; ``None`` where that one will do.

    :param has: Needs for which the Spark was started.
    :param last: How the job before ended; ``None`` where it did not.
    :param is_running: The process of the Spark is there.
    """
    if has != wanted:
        return NewSpark.OTHER_NEEDS
    if last is None or not is_running:
        return NewSpark.ENDED
    return None if last.is_reusable else NewSpark.LEFTOVERS


class SharedSpark(contextlib.AbstractContextManager["SharedSpark", None]):
    """
    Starts jobs, in one Spark as far as possible; a context, at whose end no Spark is left.

    :param scratch: A local folder, in which a new one is made and removed again; default: the user's own
        folder for scratch.
    :param cores: Threads of the Spark, in place of the number that each job asks for.
    :param memory: Heap of its JVM as Spark writes it, in place of each job's.
    """

    def __init__(self, scratch: Path | None = None, *, cores: int = 2, memory: str = "1g") -> None:
        self._parent, self._cores, self._memory = scratch, cores, memory
        self._closing = contextlib.ExitStack()
        self._running: _RunningSpark | None = None
        self.starts: list[NewSpark] = []
        """Why each Spark was started, one entry for each JVM."""

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def folder(self) -> Path:
        """Return the folder in which jobs make theirs; it goes with the Spark of a killed caller."""
        return self._scratch.folder

    @cached_property
    def _scratch(self) -> Scratch:
        own = self._closing.enter_context(scratch_folder(self._parent, PREFIX))
        self._closing.callback(self.end)
        return own

    def end(self) -> None:
        """End the Spark that runs; the next job starts another one."""
        running, self._running = self._running, None
        if running is not None:
            running.end()

    @contextlib.contextmanager
    def started(
        self, task: Task, runtime: Runtime, program: Program | None, scratch: Path
    ) -> Iterator[RunningJob]:
        """
        Start a job, as ``runner.started`` does; after the block its Python is gone.

        :param scratch: A private folder for the files of the job; its log is there too, named ``LOG``.
        :raises LaunchError: a Spark could not be started.
        """
        job = self._begin(_call_of(task, scratch), needs_of(task, runtime, program))
        try:
            yield job
        finally:
            job.spark.last = job.read_end()
            if job.end is None:
                self.end()
            job.close_log()

    def _begin(self, call: JobCall, needs: Needs) -> _SharedJob:
        found = self._continued(call, needs)
        if isinstance(found, _SharedJob):
            return found
        self.end()
        self.starts.append(found)
        self._running = _RunningSpark(
            needs, self._scratch, len(self.starts), self._cores, self._memory
        )
        return self._running.call(call)

    def _continued(self, call: JobCall, needs: Needs) -> _SharedJob | NewSpark:
        """Return the job in the Spark that runs, or why the job needs a new one."""
        spark = self._running
        if spark is None:
            return NewSpark.FIRST
        reason = why_new(spark.needs, needs, spark.last, is_running=spark.process.poll() is None)
        if reason is not None:
            return reason
        job = spark.call(call)
        if job.is_ready_within(READY_SECONDS):
            return job
        log.warning("The Spark of the job before could not be used again; a new one is started.")
        return NewSpark.NOT_READY


def _call_of(task: Task, scratch: Path) -> JobCall:
    """Write the files of a job and return its call."""
    text = _ENTRY.format(module=task.job.value)
    return JobCall(
        entry=str(write_private(scratch / "entry" / task.job.entry, text)),
        order=str(write_private(scratch / "order.json", task.order.to_bytes())),
        log=str(write_private(scratch / LOG, "")),
        variable=task.variable,
        reaches_workers=task.job not in _WITHOUT_WORKERS,
    )


class _RunningSpark:
    """A Spark with its host, and the jobs that take turns in it."""

    def __init__(self, needs: Needs, own: Scratch, number: int, cores: int, memory: str) -> None:
        self.needs = needs
        self.last: JobEnd | None = None
        """How the last job ended; ``None`` where it did not."""
        self._number = 0
        self.folder = own.folder / f"spark-{number}"
        self.folder.mkdir(mode=0o700)
        calls = own.folder / f"calls-{number}"
        calls.mkdir(mode=0o700)
        self.calls = LocalStore(str(calls))
        task = Task(
            job=Job.SHARED,
            order=SharedOrder(calls=str(calls), held=str(own.held), scratch=str(own.folder)),
            variable="",
            cores=cores,
            memory=memory,
            java_options=needs.java_options,
        )
        self._closing = contextlib.ExitStack()
        self.process: subprocess.Popen[bytes] = self._closing.enter_context(
            started(task, needs.runtime, needs.program, self.folder, needs.variables)
        )

    def call(self, call: JobCall) -> _SharedJob:
        """Have the host run a job."""
        self._number += 1
        job = _SharedJob(self, self._number, Path(call.log))
        self.calls.create(call_name(self._number), call.to_bytes())
        return job

    def end(self) -> None:
        """End the Spark with its children."""
        self._closing.close()


class _SharedJob:
    """A job in a Spark that other jobs use as well; see ``RunningJob``."""

    def __init__(self, spark: _RunningSpark, number: int, own_log: Path) -> None:
        self.spark, self._number, self._own_log = spark, number, own_log
        self._log = spark.folder / LOG
        self._begins = self._log.stat().st_size
        self.end: JobEnd | None = None

    @property
    def returncode(self) -> int | None:
        return self.spark.process.returncode if self.end is None else self.end.code

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while not self.is_over():
            if until is not None and time.monotonic() >= until:
                raise subprocess.TimeoutExpired("a job in a shared Spark", timeout or 0.0)
            time.sleep(_POLL)
        return self.returncode or 0

    def is_over(self) -> bool:
        """Tell whether the job, or the Spark with it, has ended."""
        is_gone = self.spark.process.poll() is not None
        return self.read_end() is not None or is_gone

    def read_end(self) -> JobEnd | None:
        """Return how the job ended; ``None`` while it runs, and where its Spark ended first."""
        if self.end is None:
            data = self.spark.calls.read(end_name(self._number))
            self.end = None if data is None else JobEnd.from_bytes(data)
        return self.end

    def is_ready_within(self, seconds: float) -> bool:
        """Wait until the Spark is ready for this job, and tell whether it is."""
        until = time.monotonic() + seconds
        while self.spark.calls.read(ready_name(self._number)) is None:
            if self.is_over() or time.monotonic() >= until:
                return False
            time.sleep(_POLL)
        return True

    def close_log(self) -> None:
        """Put the new lines of the JVM's log in front of the log of the job."""
        with self._log.open("rb") as shared:
            shared.seek(self._begins)
            of_jvm = shared.read()
        self._own_log.write_bytes(of_jvm + self._own_log.read_bytes())
