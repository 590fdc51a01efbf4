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
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from airflow_streaming.launch.environment import write_private
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
    """

    runtime: Runtime
    program: Program
    java_options: str = ""


def needs_of(task: Task, runtime: Runtime, program: Program | None) -> Needs:
    """Return the needs of a job."""
    given = program or Program(application="", source=b"")
    common = replace(
        given, application="", source=b"", arguments=(), left_out=(), output="", checkpoint=""
    )
    return Needs(runtime=runtime, program=common, java_options=task.java_options)


def why_new(
    has: Needs | None, wanted: Needs, last: JobEnd | None, *, is_running: bool
) -> NewSpark | None:
    """
    Return why a job needs a new Spark; ``None`` where the running one will do.

    :param has: Needs for which the running Spark was started; ``None`` without a Spark.
    :param last: How the job before ended; ``None`` where it did not.
    :param is_running: The process of the Spark is there.
    """
    if has is None:
        return NewSpark.FIRST
    if has != wanted:
        return NewSpark.OTHER_NEEDS
    if last is None or not is_running:
        return NewSpark.ENDED
    return None if last.is_reusable else NewSpark.LEFTOVERS


class SharedSpark:
    """
    Starts jobs, in one Spark as far as possible; a context, at whose end no Spark is left.

    :param scratch: A local folder, in which a new one is made and removed again; default: the user's own
        folder for scratch.
    :param cores: Threads of the Spark; they replace those of each job.
    :param memory: Heap of its JVM as Spark writes it; it replaces that of each job.
    """

    def __init__(self, scratch: Path | None = None, *, cores: int = 2, memory: str = "1g") -> None:
        self._parent, self._cores, self._memory = scratch, cores, memory
        self._whole = contextlib.ExitStack()
        self._own: Scratch | None = None
        self._turns: _Turns | None = None
        self.starts: list[NewSpark] = []
        """Why each Spark was started, one entry for each JVM."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.end()
        finally:
            self._own = None
            self._whole.close()

    @property
    def folder(self) -> Path:
        """Return the folder in which jobs make theirs; it goes with the Spark of a killed caller."""
        return self._scratch().folder

    def end(self) -> None:
        """End the Spark that runs; the next job starts another one."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.end()

    @contextlib.contextmanager
    def started(
        self, task: Task, runtime: Runtime, program: Program | None, scratch: Path
    ) -> Iterator[RunningJob]:
        """
        Start a job, as ``runner.started`` does; after the block its Python is gone.

        :param scratch: A private folder for the files of the job; its log is there too, named ``LOG``.
        :raises LaunchError: a Spark could not be started.
        """
        job = self._begin(task, runtime, program, scratch)
        try:
            yield job
        finally:
            is_over = job.is_over()
            job.turns.last = job.end
            if not is_over or job.end is None:
                self.end()
            job.close_log()

    def _begin(
        self, task: Task, runtime: Runtime, program: Program | None, scratch: Path
    ) -> _SharedJob:
        write_private(scratch / LOG, "")
        name = f"{task.job.replace('.', '_')}_entry.py"
        call = JobCall(
            entry=str(
                write_private(scratch / "entry" / name, _ENTRY.format(module=task.job.value))
            ),
            order=str(write_private(scratch / "order.json", task.order.to_bytes())),
            log=str(scratch / LOG),
            variable=task.variable,
            reaches_workers=task.job not in _WITHOUT_WORKERS,
        )
        needs = needs_of(task, runtime, program)
        turns = self._turns
        reason = why_new(
            None if turns is None else turns.needs,
            needs,
            None if turns is None else turns.last,
            is_running=turns is not None and turns.process.poll() is None,
        )
        if turns is not None and reason is None:
            job = turns.call(call)
            if job.is_ready_within(READY_SECONDS):
                return job
            log.warning(
                "The Spark of the job before could not be used again; a new one is started."
            )
            reason = NewSpark.NOT_READY
        self.end()
        self.starts.append(reason or NewSpark.FIRST)
        self._turns = _Turns(needs, self._scratch(), len(self.starts), self._cores, self._memory)
        return self._turns.call(call)

    def _scratch(self) -> Scratch:
        if self._own is None:
            self._own = self._whole.enter_context(scratch_folder(self._parent, PREFIX))
        return self._own


class _Turns:
    """One Spark and the jobs in it."""

    def __init__(self, needs: Needs, own: Scratch, number: int, cores: int, memory: str) -> None:
        self.needs = needs
        self.last: JobEnd | None = None
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
            started(task, needs.runtime, needs.program, self.folder)
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

    def __init__(self, turns: _Turns, number: int, own_log: Path) -> None:
        self.turns, self._number, self._own_log = turns, number, own_log
        self._log = turns.folder / LOG
        self._begins = self._log.stat().st_size
        self.end: JobEnd | None = None

    @property
    def returncode(self) -> int | None:
        return self.turns.process.returncode if self.end is None else self.end.code

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while not self.is_over():
            if until is not None and time.monotonic() >= until:
                raise subprocess.TimeoutExpired("a job in a shared Spark", timeout or 0.0)
            time.sleep(_POLL)
        return self.returncode or 0

    def is_over(self) -> bool:
        """Tell whether the job, or the Spark with it, has ended."""
        is_gone = self.turns.process.poll() is not None
        if self.end is None:
            told = self.turns.calls.read(end_name(self._number))
            self.end = None if told is None else JobEnd.from_bytes(told)
        return self.end is not None or is_gone

    def is_ready_within(self, seconds: float) -> bool:
        """Wait until the Spark is ready for this job, and tell whether it is."""
        until = time.monotonic() + seconds
        while self.turns.calls.read(ready_name(self._number)) is None:
            if self.is_over() or time.monotonic() >= until:
                return False
            time.sleep(_POLL)
        return True

    def close_log(self) -> None:
        """Put the new lines of the JVM's log in front of the log of the job."""
        with self._log.open("rb") as shared:
            shared.seek(self._begins)
            told = shared.read()
        own = self._own_log.read_bytes()
        self._own_log.write_bytes(told + own)
