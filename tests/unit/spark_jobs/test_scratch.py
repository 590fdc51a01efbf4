"""Scratch folders, of which others may be made and swept in the same moment."""

from __future__ import annotations

import fcntl
import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.spark_jobs.runner import Job
from airflow_streaming.spark_jobs.scratch import scratch_folder, sweep, user_folder
from tests.patience import until

PREFIX = "of-ours-"


def test_a_folder_that_was_swept_before_it_was_held_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[Path] = []
    lock = fcntl.flock

    def late(descriptor: int, how: int) -> None:
        if how == fcntl.LOCK_EX and not swept:
            swept.extend(sweep(tmp_path, PREFIX))
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)

    with scratch_folder(tmp_path, PREFIX) as own:
        assert swept
        assert own.folder not in swept
        assert own.held.exists()
        assert sweep(tmp_path, PREFIX) == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_held_until_it_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / "held").touch()
    remove = shutil.rmtree

    def removed(folder: Path, **asked: Any) -> None:
        with (folder / "held").open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(folder, **asked)

    monkeypatch.setattr(shutil, "rmtree", removed)

    assert sweep(tmp_path, PREFIX) == [left]
    assert not left.exists()


@pytest.mark.parametrize("job", Job)
def test_every_job_is_a_module_that_travels_to_spark_and_can_be_run(job: Job) -> None:
    module = importlib.import_module(f"airflow_streaming.driver.{job}")

    assert callable(module.run)


def test_the_users_own_folder_is_private_and_no_link(tmp_path: Path) -> None:
    own = user_folder(tmp_path)
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o755)
    assert user_folder(tmp_path) == own
    assert own.stat().st_mode & 0o777 == 0o700

    own.rmdir()
    own.symlink_to(tmp_path)
    other = user_folder(tmp_path)
    assert other != own
    assert not other.is_symlink()
    other.rmdir()
    other.write_text("a file")
    assert user_folder(tmp_path) not in (own, other)


def test_a_folder_of_another_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    with pytest.raises(LaunchError, match="belong to others"):
        user_folder(tmp_path)
    with pytest.raises(LaunchError, match="No scratch folder"):
        user_folder(tmp_path / "missing")


@pytest.mark.parametrize("left_by", ["airflow-streaming-plan-", "airflow-streaming-drill-", "x-"])
def test_a_job_of_any_kind_sweeps_what_killed_jobs_of_the_user_left(
    left_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = user_folder() / f"{left_by}left"
    left.mkdir()
    (left / "held").touch()
    (left / "spark.properties").write_text("spark.my.password=hunter2")

    with scratch_folder(None, PREFIX) as own:
        assert own.folder.parent == user_folder()
        assert not left.exists()
        with scratch_folder(None, "another-") as beside:
            assert own.folder.exists()
        assert not beside.folder.exists()


PREFLIGHT = """
import sys
from pathlib import Path
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.runner import Program
spark = Path(sys.argv[1])
runtime = Runtime(
    name="r", spark_home=spark, python=Path(sys.executable), java_home=None, spark_version="4.3.0"
)
conf = {"spark.my.password": "hunter2"}
plan_script(Program(application="a.py", source=b"", conf=conf), runtime, timeout=60)
"""


def test_a_preflight_that_is_killed_leaves_no_secret_to_the_next_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text("#!/bin/sh\n: >submitted\nexec sleep 5\n")
    submit.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    preflight = subprocess.Popen([sys.executable, "-c", PREFLIGHT, str(tmp_path / "spark")])
    own = user_folder()
    # A child between fork and exec holds the lock too, so the kill waits for the program of the child.
    until(lambda: any(own.glob("*/submitted")), "the start of spark-submit")
    assert b"hunter2" in next(own.glob("*/spark.properties")).read_bytes()
    preflight.kill()
    preflight.wait()
    assert any(own.glob("*/spark.properties"))

    with scratch_folder(None, "of-the-next-job-"):
        assert not any(own.glob("*/spark.properties"))
