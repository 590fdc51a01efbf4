"""What a DAG file loads: Airflow parses it every half minute, so engines, gates and launchers wait for the task."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

FIRST = "from airflow_streaming.spec import StreamSpec"
LOADED = """
import json, logging, sys
import airflow.sdk
exec(sys.argv[1])
print(json.dumps([name for name in sys.modules if name.startswith("airflow_streaming.")]))
"""
ARGUMENTS = {
    *("advice", "exceptions", "get_provider_info", "links", "model", "operators"),
    *("options", "orchestration", "reports", "settings", "spec", "task_errors"),
    "version_compat",
}
"""Rooms of which a DAG file may load any module."""
TYPES = {
    "changes.answers",
    "changes.cutover.plan",
    "changes.pointers.pointer",
    "gates.findings",
    "gates.rehearsal_due",
}
"""Modules of engines and gates whose types are arguments of operators."""


def loaded_by(lines: str) -> set[str]:
    command = [sys.executable, "-W", "ignore", "-c", LOADED, lines]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("lines", "most"),
    [
        (FIRST, 27),
        (f"{FIRST}\nfrom airflow_streaming.operators.stream import SparkStreamOperator", 35),
        ("from airflow_streaming.orchestration.stream_dags import stream_dags", 92),
    ],
)
def test_a_dag_of_a_stream_loads_arguments_and_no_engine(lines: str, most: int) -> None:
    modules = {name.removeprefix("airflow_streaming.") for name in loaded_by(lines)}

    others = {name for name in modules if name.partition(".")[0] not in ARGUMENTS}
    packages = {name.rpartition(".")[0] for name in others} | {
        "checkpoints",
        "changes",
        "changes.cutover",
    }
    assert others - packages <= TYPES
    assert len(modules) <= most


@pytest.mark.parametrize(
    ("lines", "most"),
    [
        ("from airflow_streaming.assets import stream_asset", 26),
        ("from airflow_streaming.sensors.stream import StreamHealthSensor", 24),
    ],
)
def test_a_dag_that_waits_for_a_stream_loads_no_store(lines: str, most: int) -> None:
    modules = loaded_by(lines)

    assert {name for name in modules if name.split(".")[1] in ("home", "hooks", "storage")} == set()
    assert len(modules) <= most


def test_options_of_a_spec_are_there_when_they_are_named() -> None:
    from airflow_streaming import spec

    assert {name: getattr(spec, name).__name__ for name in spec.__all__ if name != "production"}
    with pytest.raises(AttributeError, match="Retention"):
        _ = spec.Retention
