"""The metrics and the driver of a stream carry the labels that a setting names."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming import telemetry
from airflow_streaming.model.fleet.metric_labels import CONF_KEY
from airflow_streaming.triggers.stream import StreamTrigger
from tests.unit.world import World

LABELS = {"team": "payments", "build": "7f3a"}


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__STREAMING__METRIC_LABELS", "team")


def test_the_trigger_tags_its_metrics(world: World) -> None:
    trigger = world.run(world.operator(labels=LABELS))

    _, kwargs = trigger.serialize()
    again = StreamTrigger(**kwargs)
    assert again.labels == {"label_team": "payments"}
    assert again._tags == {"stream": "orders", "label_team": "payments"}


def test_the_driver_gets_them_without_a_new_deployment(world: World) -> None:
    world.run(world.operator(labels=LABELS))

    file = world.launcher.launched[0].private_files[0]
    [line] = [line for line in file.read_text().splitlines() if line.startswith(CONF_KEY)]
    assert "label_team" in line
    assert "build" not in line
    deployment = world.home.newest_deployment()
    assert deployment is not None
    assert CONF_KEY not in deployment.conf


def test_restarts_are_counted_with_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(telemetry, "count", lambda name, *by, **tags: counted.append((name, tags)))
    operator = world.operator(labels=LABELS)
    trigger = world.run(operator)
    world.crash()
    world.wake(trigger, operator)

    assert counted == [
        ("restarts", {"stream": "orders", "lane": "orders", "label_team": "payments"})
    ]
