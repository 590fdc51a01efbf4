"""What wakes the task of an upgrade."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.triggers import polling as _polling
from airflow_streaming.triggers.change import UpgradeTrigger
from tests.unit.triggers.firing import LONG_AGO, POLL, first_event
from tests.unit.world import World


def trigger(world: World, **more: Any) -> UpgradeTrigger:
    told = {"home": world.uri, "stream": "orders", "deferred_at": datetime.now(UTC).isoformat()}
    return UpgradeTrigger(**{**told, **more})


def look(watching: UpgradeTrigger) -> Any:
    payload, _ = watching.look_once()
    return payload


async def test_records_that_stay_unreadable_are_shown_to_the_task(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_polling, "DAMAGE_PATIENCE", 0.05)
    world.run()
    (Path(world.uri) / "orders" / "deployments" / "000001.json").write_text("{")

    event = await first_event(trigger(world, deferred_at=LONG_AGO, poll_seconds=POLL))

    assert (event["memory"], "000001.json" in event["reason"]) == (None, True)


def test_it_goes_on_looking_while_nothing_happens(world: World) -> None:
    world.run()
    watching = trigger(world)

    assert [look(watching) for _ in range(3)] == [None, None, None]


@pytest.mark.parametrize("what", ["ended", "stopped", "launched"])
def test_it_fires_when_something_has_happened(what: str, world: World) -> None:
    world.run()
    watching = trigger(world)
    look(watching)

    if what == "ended":
        world.crash()
    elif what == "stopped":
        world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=datetime.now(UTC))
    else:
        world.crash()
        world.run()

    event = look(watching)
    assert event["has_changed"]
    assert event["memory"]["epoch"] == world.epochs()


def test_it_fires_from_time_to_time_all_the_same(world: World) -> None:
    world.run()

    assert look(trigger(world, wake_seconds=0.0))["has_changed"] is False


def test_it_travels_and_a_row_of_a_newer_release_still_loads(world: World) -> None:
    path, kwargs = trigger(world, wake_seconds=7.0, memory=None).serialize()

    again = UpgradeTrigger(**kwargs, invented_later=True)

    assert path == "airflow_streaming.triggers.change.UpgradeTrigger"
    assert again.serialize() == (path, kwargs)
