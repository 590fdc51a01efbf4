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
ROOMS = {
    "advice",
    "exceptions",
    "get_provider_info",
    "links",
    "model",
    "operators",
    "spec",
    "task_errors",
}


def loaded_by(lines: str) -> set[str]:
    command = [sys.executable, "-W", "ignore", "-c", LOADED, lines]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("lines", "most"),
    [
        (FIRST, 31),
        (f"{FIRST}\nfrom airflow_streaming.operators.stream import SparkStreamOperator", 41),
    ],
)
def test_a_dag_of_a_stream_loads_arguments_and_no_engine(lines: str, most: int) -> None:
    modules = loaded_by(lines)

    assert {name.split(".")[1] for name in modules} <= ROOMS
    assert len(modules) <= most


def test_options_of_a_spec_are_there_when_they_are_named() -> None:
    from airflow_streaming import spec

    assert {name: getattr(spec, name).__name__ for name in spec.__all__ if name != "production"}
    with pytest.raises(AttributeError, match="Retention"):
        _ = spec.Retention
