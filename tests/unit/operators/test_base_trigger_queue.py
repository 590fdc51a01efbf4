"""A deferred task of a stream has its trigger in the queue of the stream."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from airflow.sdk.exceptions import TaskDeferred
from airflow.sdk.execution_time.comms import DeferTask
from airflow.sdk.execution_time.task_runner import _defer_task

from airflow_streaming.model.fleet.trigger_queues import TriggerQueues
from tests.unit.world import World

NAMES = ("a", "b", "c")
HASHED = TriggerQueues(names=NAMES).queue_of("orders", {})


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("AIRFLOW__TRIGGERER__QUEUES_ENABLED", "True")
    monkeypatch.setenv("AIRFLOW__STREAMING__TRIGGER_QUEUES", ", ".join(NAMES))
    return monkeypatch


def on_workers(world: World) -> Any:
    operator = world.operator()
    operator.queue = "workers"
    return operator


def queue_of(world: World, operator: Any) -> str | None:
    """Return the queue that Airflow's own task runner asks for the trigger."""
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(world.context())
    world.ti.task = operator  # type: ignore[attr-defined]
    message, _ = _defer_task(deferred.value, world.ti, structlog.get_logger())
    assert isinstance(message, DeferTask)
    return message.queue


def test_the_trigger_runs_in_the_queue_of_the_stream(
    world: World, shared: pytest.MonkeyPatch
) -> None:
    assert queue_of(world, world.operator()) == HASHED


def test_a_label_names_the_queue(world: World, shared: pytest.MonkeyPatch) -> None:
    shared.setenv("AIRFLOW__STREAMING__TRIGGER_QUEUE_LABEL", "site")

    for name in NAMES:
        assert queue_of(world, world.operator(labels={"site": name})) == name


def test_a_label_that_names_no_queue_is_logged(
    world: World, shared: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared.setenv("AIRFLOW__STREAMING__TRIGGER_QUEUE_LABEL", "site")
    assert queue_of(world, world.operator(labels={"site": "west"})) == HASHED

    assert (
        f"Label site=west names no queue of [streaming] trigger_queues; the trigger runs in queue '{HASHED}'"
        in capsys.readouterr().out
    )


def test_a_label_that_names_a_queue_is_not_logged(
    world: World, shared: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared.setenv("AIRFLOW__STREAMING__TRIGGER_QUEUE_LABEL", "site")
    queue_of(world, world.operator(labels={"site": "a", "team": "x"}))

    assert "names no queue" not in capsys.readouterr().out


def test_without_names_the_trigger_has_the_queue_of_the_task(
    world: World, shared: pytest.MonkeyPatch
) -> None:
    shared.delenv("AIRFLOW__STREAMING__TRIGGER_QUEUES")

    assert queue_of(world, on_workers(world)) == "workers"


def test_airflow_ignores_the_queues_until_they_are_enabled(
    world: World, shared: pytest.MonkeyPatch
) -> None:
    shared.delenv("AIRFLOW__TRIGGERER__QUEUES_ENABLED")

    assert queue_of(world, world.operator()) is None
