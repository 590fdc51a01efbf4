"""One Spark for the tests of all example pipelines."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from airflow_streaming.testing.pytest_plugin import stream_conf, stream_tester
from demo.events import drop
from demo.feeds.shapes import FEEDS
from tests.conftest import REPOSITORY
from tests.quick_java import kit_environment

__all__ = ["stream_conf", "stream_tester"]

Feeding = Callable[[str, Path, Iterable[int]], None]


@pytest.fixture(scope="session")
def stream_python(spark_4_3: Path) -> Path:
    """The Python of Spark 4.3."""
    return spark_4_3 / "bin" / "python"


@pytest.fixture(scope="module", autouse=True)
def quick_tester(spark_4_3: Path) -> Iterator[None]:
    """Let the shared Spark, which is killed and started again, map its archived classes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kit_environment(spark_4_3).items():
            patch.setenv(name, value)
        yield


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
