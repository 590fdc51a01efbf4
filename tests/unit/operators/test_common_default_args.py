"""Values that ``default_args`` bring are shared by many tasks, and give way to what is written on one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import pytest
from airflow.sdk import DAG, BaseOperator, TaskGroup

from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators.backup import CheckpointBackupOperator
from airflow_streaming.operators.gate import ChangeGateOperator, SparkVersionGateOperator
from airflow_streaming.operators.rehearsal import RehearsalOperator
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.sensors.stream import (
    SafeToExpireSensor,
    StreamBacklogSensor,
    StreamCaughtUpSensor,
    StreamHealthSensor,
    StreamProgressSensor,
    StreamWatermarkSensor,
)
from airflow_streaming.spec import StreamSpec

SPEC: Final = StreamSpec(
    name="orders", application="a.py", home="/srv/no-such-home", runtime="spark-4.3"
)
SENSORS: Final[tuple[tuple[type[BaseOperator], dict[str, Any]], ...]] = (
    (StreamHealthSensor, {"healthy_for": timedelta(0)}),
    (StreamProgressSensor, {"batch": 1}),
    (StreamWatermarkSensor, {"past": "{{ ds }}"}),
    (StreamBacklogSensor, {"below": 1}),
    (StreamCaughtUpSensor, {"with_stream": "others"}),
    (SafeToExpireSensor, {"older_than": "{{ ds }}"}),
)
OURS: Final = {"stream": "orders", "home": "/srv/h", "home_conn_id": "h"}
ANY: Final = {"checkpoint": "/srv/c", "endpoint": "http://h:4040", "conn_id": "c"}
NO_STREAM: Final = dict.fromkeys(OURS)
NO_CHECKPOINT: Final = dict.fromkeys(ANY)


@contextmanager
def of_a_dag(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with DAG("d", default_args=given):
        yield {}


@contextmanager
def of_a_group(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with DAG("d"), TaskGroup("g", default_args=given):
        yield {}


@contextmanager
def of_the_task(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with DAG("d"):
        yield {"default_args": given}


PLACES: Final = (of_a_dag, of_a_group, of_the_task)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Any:
    return request.param


def fields_of(task: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(task, name) for name in names}


@pytest.mark.parametrize(("sensor", "needed"), SENSORS)
def test_a_connection_for_spark_does_not_make_a_sensor_ask_an_external_stream(
    place: Any, sensor: Callable[..., Any], needed: dict[str, Any]
) -> None:
    with place({"conn_id": "spark_default"}) as more:
        task = sensor(task_id="t", **OURS, **needed, **more)
        spark = SparkStreamOperator(task_id="s", stream=SPEC, **more)
    assert fields_of(task, *OURS, *ANY) == {**OURS, **NO_CHECKPOINT}
    assert spark.conn_id == "spark_default"


@pytest.mark.parametrize(("sensor", "needed"), SENSORS)
def test_all_from_default_args(
    place: Any, sensor: Callable[..., Any], needed: dict[str, Any]
) -> None:
    with place({**OURS, "conn_id": "spark_default"}) as more:
        task = sensor(task_id="t", **needed, **more)
    assert fields_of(task, *OURS, *ANY) == {**OURS, **NO_CHECKPOINT}


@pytest.mark.parametrize(
    ("sensor", "needed"),
    [one for one in SENSORS if one[0] not in (StreamBacklogSensor, SafeToExpireSensor)],
)
def test_a_checkpoint_that_is_written_wins_over_a_stream_for_all(
    place: Any, sensor: Callable[..., Any], needed: dict[str, Any]
) -> None:
    if sensor is StreamCaughtUpSensor:
        needed = {"with_checkpoint": "/srv/d"}
    with place({**OURS, "with_stream": "others", "with_home": "/srv/i"}) as more:
        task = sensor(task_id="t", **ANY, **needed, **more)
    assert fields_of(task, *OURS, *ANY) == {**NO_STREAM, **ANY}


@pytest.mark.parametrize(("sensor", "needed"), SENSORS)
def test_what_contradicts_itself_on_the_task_is_refused(
    place: Any, sensor: Callable[..., Any], needed: dict[str, Any]
) -> None:
    with place({"conn_id": "c"}) as more, pytest.raises(SpecError, match="in two ways"):
        sensor(task_id="t", **OURS, checkpoint="/srv/c", **needed, **more)
    with place(OURS) as more, pytest.raises(SpecError, match="go with checkpoint="):
        sensor(task_id="t", conn_id="c", **needed, **more)


@pytest.mark.parametrize(
    ("gate", "needed"),
    [
        (ChangeGateOperator, {"application": "a.py", "runtime": "r"}),
        (RehearsalOperator, {"application": "a.py", "runtime": "r"}),
        (SparkVersionGateOperator, {"from_version": "4.0", "to_version": "4.1"}),
    ],
)
def test_a_gate_on_a_checkpoint_beside_gates_on_a_stream(
    place: Any, gate: Callable[..., Any], needed: dict[str, Any]
) -> None:
    with place({"stream": SPEC}) as more:
        assert gate(task_id="t", checkpoint="/srv/c", **needed, **more).stream is None
        assert gate(task_id="u", **more).stream == SPEC
    with place({"checkpoint": "/srv/c"}) as more:
        assert gate(task_id="t", stream=SPEC, **more).checkpoint is None
    with place({}) as more, pytest.raises(SpecError, match="neither or both of stream"):
        gate(task_id="t", stream=SPEC, checkpoint="/srv/c", **needed, **more)


def test_a_backup_of_a_checkpoint_beside_backups_of_a_stream(place: Any) -> None:
    with place({"stream": "orders", "home": "/srv/h"}) as more:
        unnamed = CheckpointBackupOperator(task_id="t", checkpoint="/c", store="/s", **more)
        named = CheckpointBackupOperator(
            task_id="u", checkpoint="/c", store="/s", stream="theirs", **more
        )
        ours = CheckpointBackupOperator(task_id="v", **more)
    names = ("stream", "home", "checkpoint")
    assert fields_of(unnamed, *names) == {"stream": None, "home": None, "checkpoint": "/c"}
    assert fields_of(named, *names) == {"stream": "theirs", "home": None, "checkpoint": "/c"}
    assert fields_of(ours, *names) == {"stream": "orders", "home": "/srv/h", "checkpoint": None}


def test_a_mapped_task_knows_what_was_written(place: Any) -> None:
    with place({**OURS, "conn_id": "spark_default"}) as more:
        mapped = StreamHealthSensor.partial(task_id="t", **more).expand(checkpoint=["/srv/a"])
    task: Any = mapped.unmap({"checkpoint": "/srv/a"})
    assert fields_of(task, "stream", "home", "checkpoint") == {
        "stream": None,
        "home": None,
        "checkpoint": "/srv/a",
    }
