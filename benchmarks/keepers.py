"""Ways to keep one script running, each in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import psutil

from airflow_streaming.home.home import init_home
from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.java import OPTIONS_VARIABLE
from airflow_streaming.launch.runtime import Runtime
from demo.airflow import Airflow
from demo.processes import kill_group
from demo.stage import REPOSITORY
from demo.stream import Stream
from demo.waiting import Say, wait_for

DAGS: Final = REPOSITORY / "benchmarks" / "dags"
SCRIPT: Final = DAGS / "jobs" / "endless.py"
PARSE_SECONDS: Final = 120.0
LOOP: Final = 'while :; do "$@"; done'


class Keeper(Protocol):
    """Keeps the script running in its folder."""

    name: str
    folder: Path
    dag_id: str | None
    """Its dag, if Airflow runs it."""

    rest_seconds: tuple[float, float]
    """Least and most time from a commit to the next kill."""

    def commits(self) -> Path:
        """Return the folder in which the query's checkpoint counts its batches."""

    def start(self, say: Say) -> None:
        """Begin to keep the script running; returns at once."""

    def stop(self, say: Say) -> None:
        """Let the script run no more; returns when its driver is gone."""

    def driver(self) -> psutil.Process | None:
        """Return the JVM that runs the script for the stream, if there is one."""

    def is_ready(self) -> bool:
        """Tell whether all is there that the keeper has ready for a restart."""


class ShellLoop:
    """
    ``spark-submit`` in a loop, unattended: how fast a restart can be.

    :param has_archive: Its JVMs map the class data archive that the provider made of the runtime.
    """

    dag_id = None
    rest_seconds = (5.0, 12.0)

    def __init__(self, folder: Path, runtime: Runtime, *, has_archive: bool) -> None:
        self.name = "shell loop, archive" if has_archive else "shell loop"
        self.folder = folder
        self._environment = {
            **driver_environment(os.environ, runtime, {}),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        if not has_archive:
            self._environment.pop(OPTIONS_VARIABLE, None)
        options = ["--output", str(folder / "output"), "--checkpoint", str(folder / "checkpoint")]
        submit = [str(runtime.spark_submit), "--master", "local[2]", str(SCRIPT), *options]
        self._command = ["bash", "-c", LOOP, "loop", *submit]
        self._process: subprocess.Popen[bytes] | None = None

    def commits(self) -> Path:
        return self.folder / "checkpoint" / "commits"

    def start(self, say: Say) -> None:
        self.folder.mkdir()
        with (self.folder / "driver.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self, say: Say) -> None:
        if self._process is not None:
            kill_group(self._process.pid)
            self._process.wait()

    def driver(self) -> psutil.Process | None:
        return find_driver(self.folder)

    def is_ready(self) -> bool:
        return True


class Provider:
    """
    This provider, in a real Airflow; the poll interval is the default one.

    The trigger holds events for 15 s after a deferral (ADR 25). A restart brings two, its own and that of the
    task which tells of the recovery and starts the next standby; a driver that dies meanwhile waits for the
    end of the hold. What is measured is the restart of one that runs.

    :param standby: With a hot standby beside the driver.
    """

    rest_seconds = (36.0, 43.0)

    def __init__(self, folder: Path, airflow: Airflow, *, standby: bool = False) -> None:
        self.name = "this provider, standby" if standby else "this provider"
        self.dag_id = "bench_standby" if standby else "bench_provider"
        stream = "warmed" if standby else "numbers"
        self.folder, self._airflow, self._has_standby = folder, airflow, standby
        folder.mkdir(exist_ok=True)
        self._stream = Stream(str(folder), stream)
        self._home = init_home(str(folder)).stream(stream)

    def commits(self) -> Path:
        return self.folder / self._home.name / "checkpoints" / "000001" / "numbers" / "commits"

    def driver(self) -> psutil.Process | None:
        epoch = self._home.newest_epoch()
        launch = self._home.launch(epoch.number) if epoch is not None else None
        try:
            return psutil.Process(int(launch.handle["pid"])) if launch is not None else None
        except psutil.NoSuchProcess:
            return None

    def is_ready(self) -> bool:
        if not self._has_standby:
            return True
        standbys, live = self._home.standbys(), self._home.newest_epoch()
        waiting = standbys.newest_epoch()
        if waiting is None or live is None or waiting.token == live.token:
            return False
        return standbys.barrier(waiting.number) is not None

    def start(self, say: Say) -> None:
        unpause(self._airflow, self.dag_id, say)

    def stop(self, say: Say) -> None:
        self._stream.stop(say)
        self._airflow.call("PATCH", f"/api/v2/dags/{self.dag_id}", {"is_paused": True})


class Submit:
    """``SparkSubmitOperator`` of the Spark provider, with retries and no retry delay."""

    dag_id = "bench_submit"
    rest_seconds = (5.0, 12.0)

    def __init__(self, folder: Path, airflow: Airflow) -> None:
        self.name, self.folder = "SparkSubmitOperator", folder
        self._airflow = airflow
        self._run_id = ""

    def commits(self) -> Path:
        return self.folder / "checkpoint" / "commits"

    def start(self, say: Say) -> None:
        unpause(self._airflow, self.dag_id, say)
        self._run_id = self._airflow.trigger(self.dag_id)

    def stop(self, say: Say) -> None:
        run = f"/api/v2/dags/{self.dag_id}/dagRuns/{self._run_id}"
        self._airflow.call("PATCH", run, {"state": "failed"})
        with contextlib.suppress(RuntimeError):
            wait_for(
                lambda: find_driver(self.folder) is None,
                what="the worker to end spark-submit",
                seconds=60,
                say=say,
            )
        if driver := find_driver(self.folder):
            driver.kill()

    def driver(self) -> psutil.Process | None:
        return find_driver(self.folder)

    def is_ready(self) -> bool:
        return True


def unpause(airflow: Airflow, dag_id: str, say: Say) -> None:
    """Unpause a dag, once the dag processor has read it."""
    wait_for(
        lambda: airflow.has_dag(dag_id),
        what=f"the dag processor to read {dag_id}",
        seconds=PARSE_SECONDS,
        say=say,
        failing=airflow.ended_component,
    )
    airflow.unpause(dag_id)


def taken_slots(airflow: Airflow) -> Mapping[str, int]:
    """Return the tasks of each dag that a pool counts: those that run and those handed to a worker."""
    tasks = "/api/v2/dags/~/dagRuns/~/taskInstances?state=running&state=queued"
    return Counter(task["dag_id"] for task in airflow.get(tasks)["task_instances"])


def find_driver(folder: Path) -> psutil.Process | None:
    """Return the driver's JVM, told by the folder among its arguments."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            # A zombie has no arguments.
            is_ours = any(str(folder) in argument for argument in process.cmdline())
            if is_ours and process.name() == "java":
                return process
    return None
