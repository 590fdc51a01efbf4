"""
A script of a task against Airflow's keys, where the task runs as another user than Airflow.

``run_as_user`` starts the task with ``sudo -E``: the task's own process has Airflow's environment, keys
included, and belongs to the other user. The supervisor keeps its user. Here the supervisor and the task
are processes of two accounts that the test makes, which needs root. A namespace of processes is switched
off, as most containers have none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.launch.isolation import OFF_VARIABLE
from airflow_streaming.spark_jobs.runner import Job
from tests.conftest import REPOSITORY
from tests.patience import PATIENCE

KEY: Final = "AIRFLOW__API_AUTH__JWT_SECRET"
WORD: Final = "the-worker's-key"
READS: Final = """
import os
from pathlib import Path

def text(path):
    try:
        return Path(path).read_bytes().decode(errors="replace")
    except OSError as err:
        return f"{path}: {err.strerror}"

own = "".join(f"{name}={value}" for name, value in os.environ.items())
pids = [one for one in os.listdir("/proc") if one.isdecimal() and one != str(os.getpid())]
told = [own, *(text(f"/proc/{pid}/{file}") for pid in pids for file in ("environ", "cmdline"))]
Path("{found}").write_text("\\n".join(told))
"""
"""Writes all that a process can read of the environments of others."""
SUBMIT: Final = "#!/bin/sh\nexec {python} {script}\n"
TASK: Final = """
import sys
from pathlib import Path
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.upkeep import ClassLoadingOrder
from airflow_streaming.spark_jobs.runner import Job, Program, Task, await_end, started

folder, job = Path(sys.argv[1]), Job(sys.argv[2])
runtime = Runtime(name="r", spark_home=folder / "spark", python=Path(sys.executable),
                  java_home=None, spark_version="4.3.0")
order = ClassLoadingOrder(folder="", seconds=9)
program = Program(application="", source=b"")
with started(Task(job=job, order=order, variable="X"), runtime, program, folder / "scratch") as process:
    assert await_end(process, 60)
"""
HELD_BACK: Final = {KEY: WORD, OFF_VARIABLE: "off", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Accounts:
    """Two accounts of this host: Airflow's, and the one that ``run_as_user`` names."""

    airflow: str
    task: str


@pytest.fixture(scope="module")
def accounts() -> Iterator[Accounts]:
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("Only root can make the accounts of this test, with useradd.")
    found = Accounts(airflow=f"asw{os.getpid()}", task=f"ast{os.getpid()}")
    for name in (found.airflow, found.task):
        subprocess.run(["useradd", "--system", "--no-create-home", name], check=True)
    try:
        try:
            is_readable = not run(found.task, "import airflow_streaming", check=False).returncode
        except PermissionError:
            is_readable = False
        if not is_readable:
            pytest.skip(f"{sys.executable} and its packages cannot be read by other users.")
        yield found
    finally:
        for name in (found.airflow, found.task):
            subprocess.run(["userdel", name], check=True)


def run(user: str, code: str, *arguments: str, check: bool = True) -> Any:
    """Run code as a user, as ``sudo -E`` does: with the environment of its caller."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=check,
        user=user,
        group=user,
        extra_groups=[],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **HELD_BACK},
        timeout=PATIENCE,
        capture_output=not check,
    )


@pytest.fixture
def supervisor(accounts: Accounts) -> Iterator[None]:
    """Run a process of Airflow's user that has the key."""
    process = subprocess.Popen(
        ["sleep", "1000"],
        user=accounts.airflow,
        group=accounts.airflow,
        extra_groups=[],
        env={**os.environ, KEY: WORD},
    )
    yield
    process.kill()
    process.wait(PATIENCE)


@pytest.fixture
def folder(accounts: Accounts) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="as-user-") as made:
        folder = Path(made)
        (folder / "scratch").mkdir()
        (folder / "spark/bin").mkdir(parents=True)
        attack = folder / "attack.py"
        attack.write_text(READS.replace("{found}", str(folder / "found")))
        submit = folder / "spark/bin/spark-submit"
        submit.write_text(SUBMIT.format(python=sys.executable, script=attack))
        submit.chmod(0o755)
        (folder / "found").touch()
        for path in (folder, *folder.rglob("*")):
            path.chmod(path.stat().st_mode | 0o077)
        yield folder


@pytest.mark.usefixtures("supervisor")
@pytest.mark.parametrize("job", [Job.PLAN, Job.REHEARSE, Job.DRILL, Job.COMPARE])
def test_a_script_of_a_task_as_another_user_reads_no_key(
    accounts: Accounts, folder: Path, job: Job
) -> None:
    run(accounts.task, TASK, str(folder), job.value)

    found = (folder / "found").read_text(errors="replace")
    assert "Permission denied" in found
    assert WORD not in found


@pytest.mark.usefixtures("supervisor")
def test_a_script_of_a_task_as_airflows_own_user_reads_the_supervisors_key(
    accounts: Accounts, folder: Path
) -> None:
    run(accounts.airflow, TASK, str(folder), Job.PLAN.value)

    # The limit that docs/security.md states for a worker without namespaces and run_as_user.
    assert WORD in (folder / "found").read_text(errors="replace")
