"""The task that keeps a stream alive keeps the lane that is live, through a cutover and back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.model.records.control import ChangeOutcome
from airflow_streaming.model.records.cutover_table import CutoverEvent
from airflow_streaming.model.records.epoch import Outcome
from tests.unit.two_lanes import (
    BLUE,
    GREEN,
    TO_DRAINING,
    TO_FINALIZED,
    TO_READY,
    TO_ROLLED_BACK,
    TO_SOAKING,
    TO_SWITCHING,
    TwoLanes,
    lane,
)
from tests.unit.world import World

E = CutoverEvent
HANDS_OFF = {
    "draining": TO_DRAINING,
    "switching": TO_SWITCHING,
    "aborting": (*TO_DRAINING, E.ABORT),
}


def launched(world: World) -> list[tuple[str, int]]:
    return [(one.epoch.stream, one.epoch.number) for one in world.launcher.launched]


def test_a_cutover_takes_nothing_from_blue_before_it_is_drained(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    assert trigger.keeps == BLUE
    TwoLanes(world).begin(*TO_READY)
    world.crash()

    trigger = world.wake(trigger)

    assert (trigger.keeps, world.epochs()) == (BLUE, 2)


@pytest.mark.parametrize("events", HANDS_OFF.values(), ids=HANDS_OFF.keys())
def test_while_blue_is_taken_down_it_restarts_nothing(
    kept: tuple[World, Any], events: tuple[CutoverEvent, ...]
) -> None:
    world, trigger = kept
    TwoLanes(world).begin(*events)
    world.ask_to_stop()
    world.last_words(Outcome.STOPPED)

    trigger = world.wake(trigger)

    assert (trigger.keeps, trigger.watched, world.epochs()) == (BLUE, 1, 1)


def test_a_blue_that_is_killed_while_it_is_drained_is_the_cutovers_to_judge(
    kept: tuple[World, Any],
) -> None:
    world, trigger = kept
    TwoLanes(world).begin(*TO_DRAINING)
    world.crash()

    world.wake(trigger)

    assert world.home.restart_decision(1) is None
    assert world.epochs() == 1


def test_it_follows_green_in_the_same_task(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.begin(*TO_SWITCHING)
    world.last_words(Outcome.STOPPED)
    cutover.take(*TO_SOAKING)

    trigger = world.wake(trigger)

    assert (trigger.keeps, trigger.stream, trigger.watched) == (GREEN, BLUE, 1)
    assert launched(world) == [(BLUE, 1), (GREEN, 1)]
    assert lane(world, GREEN).supervision() == lane(world, BLUE).supervision()


def test_what_fails_in_the_soak_is_left_to_the_cutover(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.begin(*TO_SWITCHING, *TO_SOAKING)
    trigger = world.wake(trigger)
    world.lane = GREEN
    world.crash()

    trigger = world.wake(trigger)

    assert (trigger.keeps, world.epochs()) == (GREEN, 1)


def test_after_a_cutover_it_keeps_green_alive(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.whole()
    world.last_words(Outcome.STOPPED)
    trigger = world.wake(trigger)
    world.lane = GREEN
    world.crash()

    trigger = world.wake(trigger)

    assert (trigger.keeps, trigger.watched) == (GREEN, 2)
    assert launched(world) == [(BLUE, 1), (GREEN, 1), (GREEN, 2)]


def test_a_fresh_task_keeps_what_is_live(kept: tuple[World, Any]) -> None:
    world, _ = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.whole()
    world.last_words(Outcome.STOPPED)

    trigger = world.run()

    assert (trigger.keeps, trigger.watched) == (GREEN, 1)
    assert launched(world) == [(BLUE, 1), (GREEN, 1)]


def test_after_an_abort_it_goes_on_with_blue(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.begin(*TO_DRAINING, E.ABORT, E.UNDONE)
    cutover.close(ChangeOutcome.ABANDONED)
    world.crash()

    trigger = world.wake(trigger)

    assert (trigger.keeps, trigger.watched) == (BLUE, 2)


def test_after_a_rollback_it_follows_blue_again(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.begin(*TO_SWITCHING, *TO_SOAKING)
    trigger = world.wake(trigger)
    assert trigger.keeps == GREEN
    cutover.take(*TO_ROLLED_BACK)
    cutover.close(ChangeOutcome.ROLLED_BACK)

    trigger = world.wake(trigger)

    assert (trigger.keeps, trigger.watched) == (BLUE, 1)
    assert launched(world) == [(BLUE, 1), (GREEN, 1)]


def test_the_next_cutover_leads_back_to_the_first_lane(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    there = TwoLanes(world)
    there.start_green()
    there.whole()
    world.last_words(Outcome.STOPPED)
    trigger = world.wake(trigger)
    back = TwoLanes(world, blue=GREEN)
    made = back.start_green()
    back.whole()

    trigger = world.wake(trigger)

    assert (trigger.keeps, trigger.watched, made.number) == (BLUE, 2, 2)
    assert made.checkpoint.endswith("orders/checkpoints/000002")


def test_green_is_kept_by_the_epoch_it_has_and_not_by_blues(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    world.crash()
    trigger = world.wake(trigger)
    assert trigger.watched == 2
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.whole()

    trigger = world.wake(trigger)

    assert (trigger.keeps, trigger.watched) == (GREEN, 1)
    world.lane = GREEN
    world.crash()
    assert world.wake(trigger).watched == 2


def test_a_home_that_is_not_mounted_any_more_leads_nowhere(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.whole()
    trigger = world.wake(trigger)
    home, away = Path(world.uri), Path(f"{world.uri}.away")
    home.rename(away)

    trigger = world.wake(trigger)

    assert (trigger.keeps, trigger.watched) == (GREEN, 1)
    assert len(launched(world)) == 2
    shutil.rmtree(home, ignore_errors=True)
    away.rename(home)
    assert world.wake(trigger).watched == 1


def test_a_lane_without_a_deployment_is_not_followed(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    TwoLanes(world).whole()

    trigger = world.wake(trigger)

    assert (trigger.keeps, trigger.unable_to) == (BLUE, "follow")


def test_a_final_cutover_leaves_the_stopped_blue_alone(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.begin(*TO_SWITCHING, *TO_SOAKING, *TO_FINALIZED)
    world.last_words(Outcome.STOPPED)

    trigger = world.wake(trigger)

    assert trigger.keeps == GREEN
    assert world.epochs() == 1
