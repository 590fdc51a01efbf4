"""The trigger of a window series: what wakes the task that announces, and what does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.module_loading import import_string

from airflow_streaming.model.codec import format_time
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.triggers.windows import LONGEST, WindowsTrigger
from tests.unit.sensors.gates import BEGUN, a_batch, commit
from tests.unit.triggers.firing import LONG_AGO, first_event, stays_silent
from tests.unit.world import World

HOUR = timedelta(hours=1)
SERIES = "3600s"


def trigger_of(world: World, **more: Any) -> WindowsTrigger:
    told: dict[str, Any] = {
        "stream": "orders",
        "home": world.uri,
        "series": SERIES,
        "until": format_time(BEGUN + HOUR),
        "deferred_at": LONG_AGO,
        "poll_seconds": 0.01,
    }
    return WindowsTrigger(**{**told, **more})


def request(world: World) -> int:
    now = datetime.now(UTC)
    asked = {"by": "kim", "reason": "late file", "now": now}
    return world.home.request_windows(SERIES, BEGUN, BEGUN + HOUR, **asked).number


@pytest.fixture
def running(world: World) -> World:
    world.run()
    return world


def test_it_survives_the_database(world: World) -> None:
    path, kwargs = trigger_of(world, query="revenue", requests=3).serialize()

    assert import_string(path)(**kwargs).serialize() == (path, kwargs)
    assert import_string(path)(**kwargs, of_a_newer_release=1).serialize() == (path, kwargs)


@pytest.mark.parametrize(
    ("watermark", "fires"),
    [
        pytest.param(BEGUN + HOUR, True, id="the end of the window"),
        pytest.param(BEGUN + 5 * HOUR, True, id="later"),
        pytest.param(BEGUN + HOUR - timedelta(milliseconds=1), False, id="a moment before"),
        pytest.param(None, False, id="no watermark"),
    ],
)
async def test_a_window_is_complete_when_the_watermark_of_a_commit_has_passed_its_end(
    running: World, watermark: datetime | None, fires: bool
) -> None:
    commit(running, a_batch(7, watermark=watermark))

    if fires:
        assert await first_event(trigger_of(running)) == {"action": "look"}
    else:
        assert await stays_silent(trigger_of(running))


async def test_another_query_completes_no_window(running: World) -> None:
    commit(running, a_batch(7, watermark=BEGUN + HOUR))

    assert await stays_silent(trigger_of(running, query="refunds"))
    assert await first_event(trigger_of(running, query="revenue")) == {"action": "look"}


async def test_a_request_wakes_the_task_once(running: World) -> None:
    number = request(running)

    assert await first_event(trigger_of(running)) == {"action": "look"}
    assert await stays_silent(trigger_of(running, requests=number))


async def test_without_a_window_to_wait_for_it_fires_at_once(world: World) -> None:
    assert await first_event(trigger_of(world, until=None)) == {"action": "look"}


async def test_a_stopped_stream_still_completes_its_windows(running: World) -> None:
    running.home.want(DesiredState.STOPPED, by="kim", reason="x", now=datetime.now(UTC))
    assert await stays_silent(trigger_of(running))

    commit(running, a_batch(7, watermark=BEGUN + HOUR))

    assert await first_event(trigger_of(running)) == {"action": "look"}


@pytest.mark.parametrize(("age", "ends"), [(-timedelta(minutes=5), False), (HOUR, True)])
async def test_a_wait_ends_after_a_day(running: World, age: timedelta, ends: bool) -> None:
    deferred = (datetime.now(UTC) - LONGEST - age).isoformat()

    if ends:
        assert await first_event(trigger_of(running, deferred_at=deferred)) == {"action": "renew"}
    else:
        assert await stays_silent(trigger_of(running, deferred_at=deferred))


async def test_a_home_that_cannot_be_one_fails_the_task(world: World) -> None:
    event = await first_event(trigger_of(world, home="nothing://x"))

    assert event["action"] == "fail"
    assert "nothing" in event["reason"]


async def test_a_home_that_is_away_keeps_the_task_waiting(running: World) -> None:
    commit(running, a_batch(7, watermark=BEGUN + HOUR))

    assert await stays_silent(trigger_of(running, home=f"{running.uri}.away"))
