"""A script of a short Spark job against the secrets of the worker that runs it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.launch import isolation
from airflow_streaming.launch.isolation import (
    OFF_VARIABLE,
    isolated,
    namespace_command,
    unreadable_memory,
)
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.upkeep import ClassLoadingOrder
from airflow_streaming.spark_jobs.runner import Job, Program, Task, await_end, started

SECRET: Final = "AIRFLOW__API_AUTH__JWT_SECRET"
WORD: Final = "the-worker's-key"
ATTACK: Final = """#!/bin/sh
# Looks for the worker's key in its own environment, its parent's, and that of all processes it sees.
{ env; cat /proc/$PPID/environ; cat /proc/[0-9]*/environ; } 2>/dev/null | tr '\\\\0' '\\\\n' > found
"""
WORKER: Final = """
import sys
from pathlib import Path
from tests.unit.launch.test_isolation import run_attack
run_attack(Path(sys.argv[1]))
"""
needs_namespace = pytest.mark.skipif(
    not namespace_command(), reason="This system gives this user no namespace of processes."
)


PR_GET_DUMPABLE: Final = 3


def is_readable() -> bool:
    """Tell whether other processes of this user may read this one."""
    return bool(ctypes.CDLL(None).prctl(PR_GET_DUMPABLE))


def runtime(folder: Path) -> Runtime:
    submit = folder / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(ATTACK.replace("\\\\", "\\"))
    submit.chmod(0o755)
    return Runtime(
        name="r",
        spark_home=folder / "spark",
        python=Path(sys.executable),
        java_home=None,
        spark_version="4.3.0",
    )


def run_attack(folder: Path) -> None:
    """Run a job whose ``spark-submit`` attacks, as a worker does."""
    scratch = folder / "scratch"
    scratch.mkdir()
    task = Task(job=Job.LOAD, order=ClassLoadingOrder(folder="", seconds=9), variable="OURS")
    program = Program(application="", source=b"", env={"OF_THE_STREAM": "1"})
    with started(task, runtime(folder), program, scratch) as process:
        assert await_end(process, 60)


def stolen(folder: Path, **environment: str) -> str:
    """Return all that the attack has read from a worker with a key in its environment."""
    subprocess.run(
        [sys.executable, "-c", WORKER, str(folder)],
        check=True,
        env={**os.environ, SECRET: WORD, "DB_PASSWORD": WORD, **environment},
    )
    return (folder / "scratch" / "found").read_text(errors="replace")


@needs_namespace
def test_a_script_of_a_job_reads_no_key_of_the_worker(tmp_path: Path) -> None:
    found = stolen(tmp_path)
    assert WORD not in found
    assert "OF_THE_STREAM=1" in found
    assert "OURS=1" in found
    assert "PATH=" in found


def test_a_script_of_a_job_writes_what_its_user_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setitem(globals(), "ATTACK", f"#!/bin/sh\necho stop > {home}/desired.json\n")
    run_attack(tmp_path)
    assert (home / "desired.json").read_text() == "stop\n"


def test_the_attack_succeeds_where_neither_wall_holds(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("The second wall holds for all users but root.")
    assert WORD in stolen(tmp_path, **{OFF_VARIABLE: "off"})


def test_other_processes_of_the_user_cannot_read_the_worker_while_a_job_runs() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # As a plain user: root may read everything.
        if os.geteuid() == 0:
            os.setuid(65534)
        isolation._prctl(isolation._PR_SET_DUMPABLE, 1)
        read = "head -c1 /proc/$PPID/environ >/dev/null 2>&1; echo $?"
        before = subprocess.check_output(["sh", "-c", read]).strip()
        with unreadable_memory(), unreadable_memory():
            during = subprocess.check_output(["sh", "-c", read]).strip()
        after = subprocess.check_output(["sh", "-c", read]).strip()
        os.write(writer, b" ".join([before, during, after]))
        os._exit(0)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reader, 100) == b"0 1 0"


def test_a_worker_is_readable_again_after_the_last_job() -> None:
    with unreadable_memory():
        with unreadable_memory():
            assert not is_readable()
        assert not is_readable()
    assert is_readable()


@needs_namespace
def test_a_job_with_a_namespace_of_its_own_ends_with_its_first_process(tmp_path: Path) -> None:
    command, environment = isolated(["sh", "-c", "exit 7"], dict(os.environ))
    assert subprocess.run(command, env=environment, check=False).returncode == 7
    assert "-XX:-UsePerfData" in environment["JDK_JAVA_OPTIONS"]


def test_without_unshare_a_job_runs_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OFF_VARIABLE, "off")
    assert isolated(["a"], {"X": "1"}) == (["a"], {"X": "1"})
    monkeypatch.delenv(OFF_VARIABLE)
    isolation._tried.cache_clear()
    monkeypatch.setattr(isolation.shutil, "which", lambda _: None)
    assert isolated(["a"], {"X": "1"}) == (["a"], {"X": "1"})
    isolation._tried.cache_clear()
    monkeypatch.setattr(isolation.shutil, "which", lambda _: "/bin/false")
    assert isolated(["a"], {"X": "1"}) == (["a"], {"X": "1"})
    isolation._tried.cache_clear()


@pytest.mark.parametrize("before", [0, 1])
def test_a_task_that_airflow_has_made_unreadable_stays_so(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = [before]

    def prctl(option: int, value: int) -> int:
        if option == isolation._PR_SET_DUMPABLE:
            state.append(value)
        return state[-1]

    monkeypatch.setattr(isolation, "_prctl", prctl)
    with isolation.unreadable_memory(), isolation.unreadable_memory():
        assert state[-1] == 0

    assert state[-1] == before
