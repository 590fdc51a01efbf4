"""A trigger sees when another lane of its stream becomes live."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.module_loading import import_string

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.hooks.snapshot import open_looker
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.supervision.readiness.subject import Condition, Subject
from airflow_streaming.triggers.change import UpgradeTrigger
from airflow_streaming.triggers.gate import GateTrigger
from airflow_streaming.triggers.stream import StreamTrigger
from tests.unit.sensors.gates import a_batch, commit
from tests.unit.two_lanes import BLUE, GREEN, TO_DRAINING, TwoLanes, lane
from tests.unit.world import World

LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


@pytest.fixture
def cutover(world: World) -> TwoLanes:
    """Return a cutover that has not begun, of a stream whose driver works."""
    world.run()
    world.say(progressed_for=timedelta(minutes=1))
    return TwoLanes(world)


def watching(world: World, **told: Any) -> StreamTrigger:
    asked = {"home": world.uri, "stream": BLUE, "deferred_at": LONG_AGO, "watched": 1}
    return StreamTrigger(**{**asked, **told})


def look(trigger: Any) -> Any:
    payload, _ = trigger.look_once()
    return payload


def test_it_comes_back_from_the_database_with_its_lane() -> None:
    trigger = StreamTrigger(home="/h", stream="s", deferred_at=LONG_AGO, keeps="s.green")

    path, told = trigger.serialize()

    assert import_string(path)(**told).serialize() == (path, told)
    assert told["keeps"] == "s.green"


def test_it_wakes_the_task_to_follow(cutover: TwoLanes) -> None:
    cutover.start_green()
    cutover.whole()

    event = look(watching(cutover.world, keeps=BLUE))

    assert (event["action"], event["lane"]) == ("follow", BLUE)


def test_one_that_was_deferred_before_there_were_lanes_follows_too(cutover: TwoLanes) -> None:
    cutover.start_green()
    cutover.whole()

    assert look(watching(cutover.world))["action"] == "follow"


def test_it_watches_the_lane_that_its_task_keeps(cutover: TwoLanes) -> None:
    cutover.start_green()
    cutover.whole()
    cutover.world.last_words(Outcome.STOPPED)
    trigger = watching(cutover.world, keeps=GREEN)
    assert look(trigger) is None
    cutover.world.lane = GREEN
    cutover.world.crash()

    event = look(trigger)

    assert (event["action"], event["lane"]) == ("settle", GREEN)


def test_while_blue_is_drained_it_wakes_nobody(cutover: TwoLanes) -> None:
    cutover.begin(*TO_DRAINING)
    cutover.world.ask_to_stop()
    cutover.world.last_words(Outcome.STOPPED)

    assert look(watching(cutover.world, keeps=BLUE)) is None


def test_whoever_waits_for_a_stop_waits_for_the_lane_that_is_live(cutover: TwoLanes) -> None:
    cutover.start_green()
    trigger = watching(cutover.world, until_parked=True)
    trigger.asks_every = 0.0
    assert look(trigger) is None
    cutover.whole()
    cutover.world.lane = GREEN
    cutover.world.crash()

    event = look(trigger)

    assert (event["action"], event["lane"]) == ("settle", GREEN)


async def test_a_task_marked_by_hand_stops_the_lane_that_is_live(cutover: TwoLanes) -> None:
    cutover.start_green()
    cutover.whole()

    watching(cutover.world, keeps=BLUE)._request_stop("The task was marked failed by hand.")

    assert lane(cutover.world, BLUE).desired() is None
    assert lane(cutover.world, GREEN).stop_request(1) is not None


def test_an_upgrade_that_waits_sees_the_lane_that_is_live(cutover: TwoLanes) -> None:
    cutover.start_green()
    cutover.whole()
    trigger = UpgradeTrigger(home=cutover.world.uri, stream=BLUE, deferred_at=LONG_AGO)
    assert look(trigger) is None
    cutover.world.lane = GREEN
    cutover.world.crash()

    assert look(trigger)["has_changed"]


def test_a_gate_asks_the_lane_that_is_live(cutover: TwoLanes) -> None:
    world = cutover.world
    commit(world, a_batch(41))
    cutover.start_green()
    trigger = GateTrigger(
        home=world.uri,
        stream=BLUE,
        condition=Condition(batch=41).to_dict(),
        deferred_at=LONG_AGO,
    )
    assert look(trigger)["seen"]["batch"] == 41
    cutover.whole()
    world.lane = GREEN
    commit(world, a_batch(7))

    assert look(trigger) is None
    commit(world, a_batch(42), beat=2)
    assert look(trigger)["seen"] | {"reason": ""} == {
        "stream": BLUE,
        "batch": 42,
        "watermark": None,
        "reason": "",
    }


def test_a_lane_can_be_looked_at_by_its_own_name(cutover: TwoLanes) -> None:
    cutover.start_green()
    cutover.world.lane = GREEN
    commit(cutover.world, a_batch(7))

    sight = open_looker(Subject(stream=GREEN, home=cutover.world.uri)).snapshot()

    assert [query.batch_id for query in sight.queries] == [7]


def test_a_home_without_the_pointer_that_was_there_says_nothing_of_the_stream(
    cutover: TwoLanes,
) -> None:
    cutover.start_green()
    cutover.whole()
    looker = open_looker(Subject(stream=BLUE, home=cutover.world.uri))
    looker.snapshot()
    home = Path(cutover.world.uri)
    home.rename(home.with_name("unmounted"))

    with pytest.raises(HomeUnavailable):
        looker.snapshot()
