"""
Fixtures of pytest: ``pytest_plugins = ["airflow_streaming.testing.pytest_plugin"]``.

``stream_tester`` is one Spark for the whole run. ``stream_python`` names its Python: the variable
``STREAM_TEST_PYTHON``, or the Python that runs the tests; define a fixture of that name to say
another. ``stream_conf`` is its configuration; define one to add to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from airflow_streaming.testing.tester import StreamTester


@pytest.fixture(scope="session")
def stream_python() -> str | Path:
    """Name the Python of the Spark installation."""
    return os.environ.get("STREAM_TEST_PYTHON", sys.executable)


@pytest.fixture(scope="session")
def stream_conf() -> Mapping[str, str]:
    """Return more configuration for Spark."""
    return {}


@pytest.fixture(scope="session")
def stream_tester(
    stream_python: str | Path, stream_conf: Mapping[str, str]
) -> Iterator[StreamTester]:
    """Share one Spark among all tests; the first that uses it starts it."""
    with StreamTester(stream_python, conf=stream_conf) as tester:
        yield tester
