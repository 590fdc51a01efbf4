"""A job whose caller was killed: its files go before the JVM, with which the job may end."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.driver.jobs import caller
from airflow_streaming.driver.jobs.caller import leave_with_caller
from tests.conftest import REPOSITORY
from tests.patience import PATIENCE, until


class Jvm:
    """Records what is done to it, and whether the folder was there."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.done = folder, list[tuple[str, bool]]()

    def freeze(self) -> None:
        self.done.append(("freeze", self._folder.exists()))

    def kill(self) -> None:
        self.done.append(("kill", self._folder.exists()))

    def is_gone_within(self, seconds: float) -> bool:
        return True


def test_the_files_go_before_the_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    held = folder / "held"
    jvm, left = Jvm(folder), list[int]()
    monkeypatch.setattr(caller, "JvmProcess", lambda: jvm)
    monkeypatch.setattr(caller, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(os, "_exit", left.append)
    with held.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        leave_with_caller(str(held), str(folder))
        assert jvm.done == []
    until(lambda: left, "The end of the job")
    assert jvm.done == [("freeze", True), ("kill", False)]
    assert left == [1]


def test_without_a_caller_to_watch_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller.threading, "Thread", None)
    leave_with_caller("", "")


JVM: Final = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
JOB: Final = """
import sys, threading, time
from airflow_streaming.driver.jobs.caller import exit_process, leave_with_caller

is_ending = threading.Event()

def end_jobs():
    is_ending.set()
    time.sleep(0.5)  # long enough for a process that does not wait for this thread to be gone

leave_with_caller(*sys.argv[1:3], end_jobs=end_jobs)
is_ending.wait()
"""


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("", id="the script ends"),
        pytest.param("raise FileNotFoundError('removed with the folder')", id="an error"),
        pytest.param("exit_process(0)", id="an exit"),
    ],
)
def test_a_job_that_ends_while_its_jvm_is_frozen_leaves_no_jvm(tmp_path: Path, end: str) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    jvm = subprocess.Popen(
        [sys.executable, "-c", JVM, f"{JOB}{end}", str(folder / "held"), str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "PYSPARK_GATEWAY_PORT": "1"},
        stderr=subprocess.DEVNULL,
    )
    try:
        assert jvm.wait(PATIENCE) == -signal.SIGKILL
    finally:
        jvm.kill()
        jvm.wait()
    assert not folder.exists()
