"""Tests in forks: each is run once, all is told, and a fork that dies is no success."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.forks import COUNT

TESTS = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(3))
def test_good(number, tmp_path):
    (pathlib.Path(__file__).parent / "ran").open("a").write(f"{tmp_path.name} {tmp_path.parent.name}\\n")

def test_skipped():
    pytest.skip("not here")
"""
BAD = """
import os

def test_bad():
    assert "seen" == "wanted"
"""
DYING = """
import os

def test_dies():
    os._exit(3)
"""


def run(folder: Path, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.forks", "-p", "no:cacheprovider", "-rs"]
    return subprocess.run(
        [*command, "-q", "--import-mode=importlib", f"--rootdir={folder}", str(folder)],
        env={**os.environ, COUNT: "2", "PYTHONPATH": str(REPOSITORY)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_test_is_run_once_and_all_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, one=TESTS, other=TESTS, bad=BAD)

    ran = (tmp_path / "ran").read_text().splitlines()
    assert len(ran) == len(set(ran)) == 6
    assert "1 failed, 6 passed, 2 skipped" in done.stdout
    assert "'seen' == 'wanted'" in done.stdout
    assert "not here" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_a_fork_that_dies_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, one=TESTS, dying=DYING)

    assert "1 of 2 forks died" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
