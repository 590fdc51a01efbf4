"""What the unit tests share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.world import World, make_spark_home


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """No unit test cuts the power, so nothing has to reach the disk."""
    # For each test, since others may run in the same session, and not by the fixture monkeypatch:
    # asked for here, it would undo a test's own patches too late.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        patch.setattr("os.sync", lambda: None)
        yield


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return one stream with a real home, a fake launcher and a runtime that is only laid out."""
    made = World(tmp_path)
    java = tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").write_text("#!/bin/sh\nexit 0\n")
    (java / "bin" / "java").chmod(0o755)
    (java / "release").write_text('JAVA_VERSION="17.0.15"\n')
    runtime = {"path": str(make_spark_home(tmp_path / "spark")), "java_home": str(java)}
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps({"spark-4.3": runtime}))
    monkeypatch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(tmp_path / "drivers"))
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"})
    )
    for module in ("hooks.stream", "triggers.home", "launch.local"):
        monkeypatch.setattr(f"airflow_streaming.{module}.LocalLauncher", lambda: made.launcher)
    return made
