"""
A Java that starts quickly, for all that the tests start: none of it lives for long.

By default a JVM on two cores spends half of its first minute on optimizing, and collects garbage with
threads of its own. What a test or an application says on Java's command line comes over it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.java import OPTIONS_VARIABLE
from airflow_streaming.launch.runtime import Runtime, resolve_runtime

QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    """Let every Java that is started from here be a quick one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OPTIONS_VARIABLE, QUICK)
        yield


def spark_environment(runtime: Path | Runtime) -> dict[str, str]:
    """Return the environment of a program with a Spark on this machine: a driver's, archived classes included."""
    if isinstance(runtime, Path):
        runtime = resolve_runtime("spark", {"spark": str(runtime)})
    given = {"SPARK_LOCAL_IP": "127.0.0.1", OPTIONS_VARIABLE: QUICK}
    # No driver of ours takes these arguments from its environment; a test gives jars by them.
    submit = {name: value for name, value in os.environ.items() if name == "PYSPARK_SUBMIT_ARGS"}
    return {**driver_environment({**os.environ, **given}, runtime, {}), **submit}
