"""Every templated argument takes a template, and what another task returns, and keeps it for the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from airflow.sdk import DAG
from airflow.sdk.bases.operator import BaseOperator
from airflow.sdk.definitions.xcom_arg import XComArg

from airflow_streaming.operators.backup import CheckpointBackupOperator
from airflow_streaming.operators.common.gate import GateTask
from airflow_streaming.sensors.stream import (
    SafeToExpireSensor,
    StreamBacklogSensor,
    StreamGateSensor,
)
from tests.unit.fuzz.test_public_arguments import PUBLIC, is_task, parameters, usual

NOT_GIVEN: Final = ("stream_name", "stream_home", "also")
"""Fields that are made of an argument."""


def templated() -> Iterator[tuple[str, str, str]]:
    for name, kind in PUBLIC.items():
        if not is_task(kind):
            continue
        taken = parameters(kind)
        for field in kind.template_fields:
            argument = field if field in taken else field.removeprefix("is_")
            # The fields of a spec are templated themselves.
            is_spec = argument in taken and "StreamSpec" in str(taken[argument].annotation)
            if field not in NOT_GIVEN and not is_spec:
                yield name, field, argument


EXTERNAL: Final = ("checkpoint", "endpoint", "conn_id", "checkpoint_conn_id")


def arguments(name: str, argument: str) -> dict[str, Any]:
    """Return arguments that go with the one that is tried."""
    given = usual(name)
    of_ours = StreamBacklogSensor | SafeToExpireSensor
    if issubclass(PUBLIC[name], of_ours) and argument in EXTERNAL:
        pytest.skip("A checkpoint does not tell what is unread.")
    is_one_of_two = issubclass(PUBLIC[name], StreamGateSensor | GateTask | CheckpointBackupOperator)
    if is_one_of_two and argument in EXTERNAL:
        given = {one: it for one, it in given.items() if one not in ("stream", "home")}
        others = {
            "checkpoint": "/srv/c",
            "store": "/srv/s",
            "application": "a.py",
            "runtime": "r",
            "from_version": "4.0",
            "to_version": "4.1",
            "with_home": "/srv/h",
        }
        given |= {one: it for one, it in others.items() if one in parameters(PUBLIC[name])}
    if argument in ("with_checkpoint", "with_conn_id"):
        given.pop("with_stream")
        given |= {"with_checkpoint": "/srv/c"}
    return given


@pytest.mark.parametrize("sort", ["result", "template"])
@pytest.mark.parametrize(("name", "field", "argument"), [*templated()])
def test_a_templated_argument_takes_what_a_run_fills_in(
    name: str, field: str, argument: str, sort: str
) -> None:
    with DAG("d"):
        given: Any = XComArg(BaseOperator(task_id="before")) if sort == "result" else "{{ x }}"
        task = PUBLIC[name](**{**arguments(name, argument), argument: given})
    assert getattr(task, field) is given
