"""
What all tests share.

Airflow reads its settings at import, so they are made here, before any test module is imported: a
folder of its own for every run, no examples, and a database that no unit test may touch.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
import zlib
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pytest
from hypothesis import settings

# No test is a stopwatch: on a crowded machine the first example of any takes a third of a second.
settings.register_profile("patient", deadline=None, max_examples=60)
settings.load_profile("patient")

# What is imported and collected stays until the end: looking through it for garbage, again and again,
# took a sixth of the time of both.
gc.disable()

REPOSITORY: Final = Path(__file__).resolve().parent.parent
_T = TypeVar("_T")

_airflow_home = tempfile.TemporaryDirectory(prefix="airflow-streaming-tests-")
os.environ["AIRFLOW_HOME"] = _airflow_home.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "True"
os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{_airflow_home.name}/airflow.db"


RUNS_NIGHTLY: Final = bool(os.environ.get("AIRFLOW_STREAMING_TEST_MORE"))
"""Whether the tests that are marked ``nightly`` run, too, and others are more thorough."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect garbage in the tests again, but none of what was there before them."""
    try:
        return (yield)
    finally:
        gc.freeze()
        # Tests make much that goes away by itself.
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    check_names(items)
    if not RUNS_NIGHTLY:
        skip_nightly(items)


def check_names(items: list[pytest.Item]) -> None:
    """Refuse a name that tells a memory address: the processes of `make check` would each have other tests."""
    if adrift := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"Give 'ids' a function that names the cases of {adrift[0]}.")


def skip_nightly(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("nightly"):
            why = f"{mark.args[0]} AIRFLOW_STREAMING_TEST_MORE=1 runs it."
            item.add_marker(pytest.mark.skip(why))


def share_of(cases: Sequence[_T], of: str, parts: int) -> Sequence[_T]:
    """
    Return every case in a nightly run, and else one part of them, another for another name.

    :param of: The name for which the cases are tried.
    """
    return cases if RUNS_NIGHTLY else cases[zlib.crc32(of.encode()) % parts :: parts]


OLDER: Final = pytest.param("spark-3.5", marks=pytest.mark.nightly("The same on an older Spark."))
"""A parameter of tests that run on two Sparks."""


def find_runtimes() -> dict[str, Path]:
    """Return the Spark runtimes on this machine, by name."""
    named = json.loads(os.environ.get("AIRFLOW_STREAMING_TEST_RUNTIMES", "{}"))
    made = {path.name: path for path in (REPOSITORY / ".runtimes").glob("spark-*")}
    return {name: Path(path) for name, path in {**made, **named}.items()}


@pytest.fixture(scope="session")
def spark_4_3() -> Path:
    """The runtime of Spark 4.3, which every full run of the tests has."""
    runtime = find_runtimes().get("spark-4.3")
    if runtime is None:
        pytest.skip("There is no .runtimes/spark-4.3; run 'make setup'.")
    return runtime


@pytest.fixture(scope="session")
def spark_3_5() -> Path:
    """The runtime of Spark 3.5, from which streams are upgraded."""
    runtime = find_runtimes().get("spark-3.5")
    if runtime is None:
        pytest.skip("There is no .runtimes/spark-3.5; run 'make setup'.")
    return runtime
