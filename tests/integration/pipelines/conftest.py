"""One Spark for the tests of all example pipelines."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from airflow_streaming.testing.pytest_plugin import stream_tester
from demo.events import drop
from demo.feeds.shapes import FEEDS
from tests.conftest import REPOSITORY
from tests.quick_java import quick_conf

__all__ = ["stream_tester"]

Feeding = Callable[[str, Path, Iterable[int]], None]


@pytest.fixture(scope="session")
def stream_python(spark_4_3: Path) -> Path:
    """The Python of Spark 4.3."""
    return spark_4_3 / "bin" / "python"


@pytest.fixture(scope="session")
def stream_conf() -> dict[str, str]:
    """What the shared Spark is told beside the kit's own settings."""
    return quick_conf("4.3.0")


@pytest.fixture(scope="session")
def has_pandas(stream_python: Path) -> None:
    """State functions of users need pandas and Arrow beside Spark."""
    wanted = "import pandas, pyarrow, google.protobuf"
    if subprocess.run([stream_python, "-c", wanted], capture_output=True, check=False).returncode:
        pytest.skip("The runtime spark-4.3 has no pandas, pyarrow and protobuf; run 'make setup'.")


@pytest.fixture
def feed() -> Feeding:
    """Drop files of a feed into a folder, by their numbers."""

    def drop_files(name: str, folder: Path, numbers: Iterable[int]) -> None:
        for number in numbers:
            drop(folder, f"{number:06}.json", "\n".join(FEEDS[name].lines(number)) + "\n")

    return drop_files


@pytest.fixture(scope="session")
def dags() -> Path:
    """The folder of the example dags."""
    return REPOSITORY / "dags"
