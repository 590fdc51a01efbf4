"""Scratch folders, of which others may be made and swept in the same moment."""

from __future__ import annotations

import fcntl
import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.spark_jobs.runner import Job, scratch_folder, sweep

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
