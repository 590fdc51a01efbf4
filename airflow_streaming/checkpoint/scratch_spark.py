"""
A Spark for a short task: one bounded process of this host, and all that it started, ended with it.

It gets a session of its own, so that its whole group can be killed, and a configuration file that
only this user may read. Should this process be killed itself, the other one ends by its own clock.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from airflow_streaming.checkpoint.drill_program import Program
from airflow_streaming.core.checkpoint.drill import is_kept_back
from airflow_streaming.core.conf import conf_text
from airflow_streaming.core.failures.text import presentable
from airflow_streaming.core.wire import Record
from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.package import build_driver_package
from airflow_streaming.launch.private import open_private_log, write_private
from airflow_streaming.launch.properties import properties_text, spark_defaults
from airflow_streaming.launch.runtime import Runtime

LOG: Final = "driver.log"

_POLL: Final = 0.1
_PATIENCE: Final = 5.0
"""Seconds for killed processes to be gone; their files are removed next."""

_TAIL: Final = 8_000
_FRAME: Final = re.compile(r'^  File "([^"]+)", line \d+', re.MULTILINE)
_ENTRY: Final = """\
import sys

from airflow_streaming.driver.{module} import run

sys.exit(run(sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """
    What a short-lived Spark has to do.

    :param module: The module of ``driver`` whose ``run`` does it; it is given the order's file.
    :param order: What exactly it has to do.
    :param variable: Set to 1 in its environment, for scripts that do more than start queries.
    :param cores: Threads of Spark.
    :param memory: Of its JVM, as Spark writes it.
    """

    module: str
    order: Record
    variable: str
    cores: int = 2
    memory: str = "1g"


@contextlib.contextmanager
def started(
    task: Task, runtime: Runtime, program: Program | None, scratch: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """
    Start a Spark for a task; when the block is left, it is gone with all that it started.

    :param scratch: A private folder for its files; its log is there too, named ``LOG``.
    :raises LaunchError: it could not be started.
    """
    environment = driver_environment(os.environ, runtime, {task.variable: "1"})
    command = _command(task, runtime, program, environment, scratch)
    output = open_private_log(scratch / LOG)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=scratch,
            start_new_session=True,
        )
    except OSError as err:
        raise LaunchError(
            f"The Spark of runtime {runtime.name!r} could not be started with {command[0]}: "
            f"{err.strerror or err}. Check the runtime."
        ) from err
    finally:
        os.close(output)
    try:
        yield process
    finally:
        kill_family(process)


def await_end(
    process: subprocess.Popen[bytes], seconds: float, look: Callable[[], None] = lambda: None
) -> bool:
    """Wait until a process has ended, looking meanwhile; tell whether it has within its time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL)
            return True
        look()
    return False


def last_words(scratch: Path) -> str:
    """Return the last line of a Spark's log that tells of an error, or else its last line."""
    text = (scratch / LOG).read_bytes()[-_TAIL:].decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "rror" in line or "xception" in line]
    return presentable((telling or lines or ["it said nothing."])[-1])


def ends_in_our_code(scratch: Path) -> bool:
    """Tell whether the last Python error of a Spark's log was raised in a driver of ours."""
    text = (scratch / LOG).read_bytes()[-_TAIL:].decode("utf-8", "replace")
    _, found, trace = text.rpartition("Traceback (most recent call last):")
    frames = _FRAME.findall(trace) if found else []
    return bool(frames) and "airflow_streaming/driver/" in frames[-1]


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, and all that it started."""
    # Python workers leave the group for one of their own, but not the family.
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        family = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.kill()
    process.wait()
    psutil.wait_procs(family, timeout=_PATIENCE)


def _command(
    task: Task,
    runtime: Runtime,
    program: Program | None,
    environment: Mapping[str, str],
    scratch: Path,
) -> list[str]:
    package = build_driver_package(scratch / "package")
    text = _ENTRY.format(module=task.module)
    entry = write_private(scratch / "entry" / f"{task.module.replace('.', '_')}_entry.py", text)
    told = write_private(scratch / "order.json", task.order.to_bytes())
    conf = _conf(task, program.conf if program else {}, scratch)
    text = properties_text(conf, spark_defaults(runtime, environment))
    properties = write_private(scratch / "spark.properties", text)
    given = {
        "--properties-file": [str(properties)],
        "--py-files": [str(package.archive), *(program.py_files if program else ())],
        "--jars": list(program.jars) if program else [],
        "--packages": list(program.packages) if program else [],
        "--files": list(program.files) if program else [],
    }
    options = [part for name, value in given.items() if value for part in (name, ",".join(value))]
    return [str(runtime.spark_submit), *options, str(entry), str(told)]


def _conf(task: Task, wanted: Mapping[str, Any], scratch: Path) -> dict[str, str]:
    kept = {key: conf_text(value) for key, value in wanted.items() if not is_kept_back(key)}
    options = kept.get("spark.driver.extraJavaOptions", "")
    # Half the time of a short-lived JVM is spent on optimising it.
    quick = f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={_folder(scratch / 'tmp')}"
    return {
        **kept,
        "spark.master": f"local[{task.cores}]",
        "spark.app.name": f"airflow-streaming {task.module}",
        "spark.driver.memory": task.memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{options} {quick}".strip(),
        "spark.local.dir": _folder(scratch / "tmp"),
        "spark.sql.warehouse.dir": _folder(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "false",
        "spark.plugins": "",
        "spark.extraListeners": "",
        "spark.sql.queryExecutionListeners": "",
        "spark.sql.streaming.streamingQueryListeners": "",
    }


def _folder(path: Path) -> str:
    path.mkdir(mode=0o700, exist_ok=True)
    return str(path)
