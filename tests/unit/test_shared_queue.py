"""The queue of test files: each is run once, by one of the runs that share it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.costs import read_costs
from tests.shared_queue import FOLDER, TOGETHER, in_order, name_of, taken

SHARED = """
import pytest

@pytest.fixture(scope="session")
def once(request):
    print("made")
    yield
    print("gone")
"""
TESTS = """
import pytest

@pytest.fixture(scope="module", autouse=True)
def module():
    yield
    print("module gone")

def test_one(once): print("one")
def test_two(once): print("two")
"""


def test_what_takes_long_comes_first_and_what_shares_a_spark_is_one() -> None:
    tests = [
        "tests/integration/alerts/test_notifiers.py::test_a",
        "tests/integration/pipelines/test_small.py::test_b",
        "tests/integration/home/test_s3.py::test_c[x::y]",
        "tests/integration/pipelines/test_iot.py::test_d",
        "tests/integration/alerts/test_notifiers.py::test_e",
    ]
    costs = {
        "tests/integration/pipelines/test_small.py": 30.0,
        "tests/integration/pipelines/test_iot.py": 40.0,
        "tests/integration/home/test_s3.py": 60.0,
    }

    assert list(in_order(tests, costs).items()) == [
        ("tests/integration/pipelines/", [1, 3]),
        ("tests/integration/home/test_s3.py", [2]),
        ("tests/integration/alerts/test_notifiers.py", [0, 4]),
    ]


def test_each_is_taken_once_whoever_asks(tmp_path: Path) -> None:
    queue = {f"tests/test_{number}.py": [number] for number in range(4)}
    one, other = taken(queue, tmp_path), taken(queue, tmp_path)

    assert [next(one), next(other), next(one), *other, *one] == [[0], [1], [2], [3]]


def test_what_is_said_to_take_long_exists() -> None:
    for name in (*read_costs(), *TOGETHER.values()):
        assert (REPOSITORY / name).exists(), name
    for name in TOGETHER.values():
        assert name_of(f"{name}::test") == name


def test_a_run_takes_what_is_left_and_keeps_what_belongs_to_the_session(tmp_path: Path) -> None:
    queue = tmp_path / "taken"
    queue.mkdir()
    (queue / "test_b.py").touch()
    (tmp_path / "conftest.py").write_text(SHARED)
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.shared_queue", "-p", "no:cacheprovider"]

    done = subprocess.run(
        [*command, "-sq", "--import-mode=importlib", f"--rootdir={tmp_path}", str(tmp_path)],
        env={**os.environ, FOLDER: str(queue), "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    told = done.stdout.replace(".", "").split("\n")
    said = [line for line in told if line in {"made", "gone", "one", "two", "module gone"}]
    assert said == ["made", *["one", "two", "module gone"] * 2, "gone"], done.stdout
    assert done.returncode == 0
    assert "4 passed" in done.stdout
