"""
A Java and a Spark that start quickly, for all that the tests start: none of it lives for long.

By default a JVM on two cores spends half of its first minute on optimizing, and collects garbage with
threads of its own. What a test or an application says on Java's command line comes over it.

Hadoop starts a process for the permissions of every file that it makes, and its newer interface two more for
what may be links at both ends of a rename: dozens for each batch of Spark on a local folder. That, and code that
is compiled for a few rows, took a fifth of the CPU time of what runs Spark here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.java import OPTIONS_VARIABLE
from airflow_streaming.launch.runtime import Runtime, resolve_runtime

QUICK: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    # An archive of classes was made just before: no need to hold it against its checksums.
    " -XX:-VerifySharedSpaces"
    # One program for each process that Hadoop starts, not two.
    " -Djdk.lang.Process.launchMechanism=VFORK"
)
"""Options of Java for every Spark of the tests."""
INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""As in the testing kit: tests run each plan on a few rows. Streams of a whole Airflow compile theirs."""


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    """Let every Java that is started from here be a quick one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OPTIONS_VARIABLE, QUICK)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_spark() -> Iterator[None]:
    """Let every Spark that is started from here be one that interprets its plans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OPTIONS_VARIABLE, _with_conf(INTERPRETED))
        yield


def quick_conf(spark_version: str) -> dict[str, str]:
    """
    Return the configuration of a Spark of this version that is quick with a few rows on a local folder.

    Its checkpoints are written by Hadoop's older interface, as Spark does by itself in a store that has no newer
    one: the same files with the same names.

    :param spark_version: Such as ``4.3.0``.
    """
    package = "org.apache.spark.sql.execution.streaming"
    if tuple(map(int, spark_version.split(".")[:2])) >= (4, 1):
        package = f"{package}.checkpointing"
    manager = f"{package}.FileSystemBasedCheckpointFileManager"
    return {**INTERPRETED, "spark.sql.streaming.checkpointFileManagerClass": manager}


def _with_conf(conf: Mapping[str, str]) -> str:
    """Return the options of a Java whose Spark has a configuration, unless it is told another."""
    return " ".join((QUICK, *(f"-D{key}={value}" for key, value in conf.items())))


def spark_environment(runtime: Path | Runtime) -> dict[str, str]:
    """Return the environment of a program with a Spark on this machine: a driver's, archived classes included."""
    if isinstance(runtime, Path):
        runtime = resolve_runtime("spark", {"spark": str(runtime)})
    options = _with_conf(quick_conf(runtime.spark_version))
    given = {"SPARK_LOCAL_IP": "127.0.0.1", OPTIONS_VARIABLE: options}
    # No driver of ours takes these arguments from its environment; a test gives jars by them.
    submit = {name: value for name, value in os.environ.items() if name == "PYSPARK_SUBMIT_ARGS"}
    return {**driver_environment({**os.environ, **given}, runtime, {}), **submit}


def kit_environment(runtime: Path) -> dict[str, str]:
    """Return what makes the Spark of a ``StreamTester`` quick, beside the kit's own settings."""
    return {OPTIONS_VARIABLE: spark_environment(runtime)[OPTIONS_VARIABLE]}
