"""
The host of a shared Spark: one JVM, and one Python for each job.

The host is the Python that ``spark-submit`` starts. It does not use Spark itself. For each call it starts
another Python, which finds the JVM by the same environment and runs one job, as a job with a Spark of its
own does. The interpreter, the Spark context, its sessions and the connections to file systems are new
for every job; only the JVM with its loaded classes stays.

A job may leave something in the working folder or the warehouse, where the next job would meet it. The
host reports such names, and the caller starts a new Spark then.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.errors import log_to_stderr
from airflow_streaming.driver.jobs.caller import leave_watching_to_host, leave_with_caller
from airflow_streaming.driver.jvm import die_with_jvm, ensure_gateway
from airflow_streaming.model.jobs.shared import (
    JobCall,
    JobEnd,
    SharedOrder,
    call_name,
    end_name,
    ready_name,
)
from airflow_streaming.model.storage import LocalStore

_POLL: Final = 0.05
_WAREHOUSE: Final = "warehouse"
_IN_WORKERS: Final = "spark.executorEnv."
"""Spark gives Python workers the variables with this prefix; theirs are the JVM's otherwise."""
_OURS: Final = f"{_IN_WORKERS}AIRFLOW_STREAMING_"


def run(arguments: Sequence[str]) -> int:
    """Run jobs until the caller ends this process."""
    log_to_stderr()
    Host(SharedOrder.from_bytes(Path(arguments[0]).read_bytes())).run()
    return 0


class Host:
    """Runs the jobs of one shared Spark."""

    def __init__(self, order: SharedOrder) -> None:
        self._order, self._calls = order, LocalStore(order.calls)
        self._job: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Run one job after the other, until the process of the caller is gone."""
        order = self._order
        leave_with_caller(order.held, order.scratch, end_jobs=self.end_job)
        for number in count(1):
            while (told := self._calls.read(call_name(number))) is None:
                time.sleep(_POLL)
            end = self.do(JobCall.from_bytes(told), number)
            self._calls.create(end_name(number), end.to_bytes())

    def do(self, call: JobCall, number: int) -> JobEnd:
        """Run one job in a Python of its own and return how it ended."""
        before = present(Path.cwd())
        variable = call.variable if call.reaches_workers else ""
        ready = str(Path(self._order.calls) / ready_name(number))
        with Path(call.log).open("ab") as log:
            self._job = subprocess.Popen(
                [sys.executable, call.entry, call.order, ready, variable],
                env={**os.environ, call.variable: "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        code = self._job.wait()
        left = tuple(sorted(present(Path.cwd()) - before))
        return JobEnd(code=code, leftovers=left)

    def end_job(self) -> None:
        """Kill the job that runs, and wait until it is gone."""
        if self._job is not None:
            with contextlib.suppress(OSError):
                self._job.kill()
                self._job.wait()


def present(folder: Path) -> set[str]:
    """Return the names in a working folder and in the warehouse in it."""
    warehouse = folder / _WAREHOUSE
    tables = os.listdir(warehouse) if warehouse.is_dir() else ()  # noqa: PTH208 - names are enough
    return {*os.listdir(folder), *(f"{_WAREHOUSE}/{name}" for name in tables)}  # noqa: PTH208


def prepare(arguments: Sequence[str]) -> None:
    """
    Make the JVM as good as new for the job of this process, and announce that it is.

    :param arguments: The file of the announcement, and the variable that Python workers are to have;
        the variable may be empty.
    """
    ready, variable = arguments
    die_with_jvm()  # the parent, which is the host here
    leave_watching_to_host()
    jvm = ensure_gateway().jvm
    end_context(jvm)
    give_workers(jvm.java.lang.System, variable)
    Path(ready).touch()


def end_context(jvm: Any) -> None:
    """Stop the Spark context of the job before, where it runs, and forget its connections."""
    companion = getattr(getattr(jvm.org.apache.spark, "SparkContext$"), "MODULE$")
    active = companion.getActive()
    if active.isDefined():
        active.get().stop()
    # A cached connection has the credentials of the job that opened it.
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()


def give_workers(system: Any, variable: str) -> None:
    """Give Python workers a variable, and take the one of the job before."""
    for name in list(system.getProperties().stringPropertyNames()):
        if name.startswith(_OURS):
            system.clearProperty(name)
    if variable:
        system.setProperty(f"{_IN_WORKERS}{variable}", "1")
