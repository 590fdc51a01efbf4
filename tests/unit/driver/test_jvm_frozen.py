"""A JVM that was stopped is killed, also where the process that stopped it is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from airflow_streaming.driver.jvm import JvmProcess
from tests.conftest import REPOSITORY
from tests.patience import PATIENCE, until

FREEZE = """
import os, signal, sys
from airflow_streaming.driver.jvm import JvmProcess
jvm = JvmProcess()
jvm._pid = int(sys.argv[1])
jvm.freeze(seconds=float(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def jvm() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_the_jvm_of_a_host_that_is_killed_after_the_freeze_ends(
    jvm: subprocess.Popen[bytes],
) -> None:
    host = [sys.executable, "-c", FREEZE, str(jvm.pid), "0.1"]

    assert subprocess.run(host, cwd=REPOSITORY, check=False).returncode == -signal.SIGKILL

    assert jvm.wait(PATIENCE) == -signal.SIGKILL


def test_the_watchdog_ends_with_a_jvm_that_its_host_kills(jvm: subprocess.Popen[bytes]) -> None:
    process = JvmProcess()
    process._pid = jvm.pid
    process.freeze(seconds=600)
    frozen = psutil.Process(jvm.pid)
    until(lambda: frozen.status() == psutil.STATUS_STOPPED, "the stop", every=0.01)
    watchdog = process._watchdog
    assert watchdog is not None
    assert watchdog.poll() is None

    process.kill()

    assert jvm.wait(PATIENCE) == -signal.SIGKILL
    assert watchdog.wait(PATIENCE) == 0


def test_a_jvm_that_is_gone_gets_no_watchdog(jvm: subprocess.Popen[bytes]) -> None:
    process = JvmProcess()
    process._pid = jvm.pid
    jvm.kill()
    jvm.wait()

    process.freeze()

    assert process._watchdog is None
