"""
The Spark of a drill: one bounded process of this host, and all that it started, ended with it.

It gets a session of its own, so that its whole group can be killed, and a configuration file that
only this user may read. Should this process be killed itself, the other one ends by its own clock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from airflow_streaming.checkpoint.drill_program import Program
from airflow_streaming.checkpoint.progress import Phase, Progress, ProgressNow
from airflow_streaming.core.checkpoint.drill import (
    DrillEvent,
    DrillOrder,
    Told,
    is_kept_back,
    read_events,
)
from airflow_streaming.core.conf import conf_text
from airflow_streaming.core.failures.text import presentable
from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.package import build_driver_package
from airflow_streaming.launch.private import open_private_log, write_private
from airflow_streaming.launch.properties import properties_text, spark_defaults
from airflow_streaming.launch.runtime import Runtime

DRILL_VARIABLE: Final = "AIRFLOW_STREAMING_DRILL"
"""Set to 1 in a drill, for scripts that do more than start queries."""

_POLL: Final = 0.1
_PATIENCE: Final = 5.0
"""Seconds for killed processes to be gone; their files are removed next."""

_TAIL: Final = 8_000
_ENTRY: Final = """\
import sys

from airflow_streaming.driver.drill import run

sys.exit(run(sys.argv[1:]))
"""


def run_spark(
    order: DrillOrder,
    runtime: Runtime,
    program: Program | None,
    *,
    scratch: Path,
    progress: Progress,
) -> tuple[list[DrillEvent], str]:
    """
    Have a Spark do the order.

    :param scratch: A private folder for its files; what it starts is gone when this returns.
    :return: What it told, and a sentence when it did not come to its end.
    :raises LaunchError: it could not be started.
    """
    log = scratch / "driver.log"
    with _started(order, runtime, program, scratch, log) as process:
        is_late = _watch(process, order, progress)
    events = _events(order)
    if any(event.told is Told.END for event in events):
        return events, ""
    if is_late:
        return events, (
            f"The drill was ended after {order.seconds:.0f} s, {_doing(events)}. Give it more time "
            "if the state or the batch is large."
        )
    return events, (
        f"The Spark of the drill ended with code {process.returncode}, {_doing(events)}: "
        f"{_last_words(log)}"
    )


@contextlib.contextmanager
def _started(
    order: DrillOrder, runtime: Runtime, program: Program | None, scratch: Path, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    environment = driver_environment(os.environ, runtime, {DRILL_VARIABLE: "1"})
    command = _command(order, runtime, program, environment, scratch)
    output = open_private_log(log)
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
        _kill(process)


def _command(
    order: DrillOrder,
    runtime: Runtime,
    program: Program | None,
    environment: Mapping[str, str],
    scratch: Path,
) -> list[str]:
    package = build_driver_package(scratch / "package")
    entry = write_private(scratch / "entry" / "drill_entry.py", _ENTRY)
    told = write_private(scratch / "order.json", order.to_bytes())
    conf = _conf(program.conf if program else {}, scratch)
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


def _conf(wanted: Mapping[str, Any], scratch: Path) -> dict[str, str]:
    kept = {key: conf_text(value) for key, value in wanted.items() if not is_kept_back(key)}
    options = kept.get("spark.driver.extraJavaOptions", "")
    # Half the time of a short-lived JVM is spent on optimising it.
    quick = f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={_folder(scratch / 'tmp')}"
    return {
        **kept,
        "spark.master": "local[2]",
        "spark.app.name": "airflow-streaming drill",
        "spark.driver.memory": "1g",
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


def _watch(process: subprocess.Popen[bytes], order: DrillOrder, progress: Progress) -> bool:
    deadline = time.monotonic() + order.seconds
    told = 0
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL)
            return False
        events = _events(order)
        for event in events[told:]:
            told += 1
            progress(ProgressNow(phase=Phase.DRILL, subject=event.query, files=told))
    return True


def _events(order: DrillOrder) -> list[DrillEvent]:
    try:
        return read_events(Path(order.events).read_bytes())
    except FileNotFoundError:
        return []


def _kill(process: subprocess.Popen[bytes]) -> None:
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


def _doing(events: list[DrillEvent]) -> str:
    last = events[-1] if events else None
    if last is None:
        return "before Spark was there"
    if last.told is Told.STARTED:
        return f"while {f'query {last.query!r}' if last.query else 'the query'} ran a batch"
    return f"after {last.told.value.replace('_', ' ')} of {last.query or 'the query'}"


def _last_words(log: Path) -> str:
    text = log.read_bytes()[-_TAIL:].decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "rror" in line or "xception" in line]
    return presentable((telling or lines or ["it said nothing."])[-1])
