"""Stopping and starting a stream mean the lane that is live."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.cutover_table import CutoverEvent
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.operators.switch import StartStreamOperator, StopStreamOperator
from tests.unit.two_lanes import (
    BLUE,
    GREEN,
    TO_DRAINING,
    TO_READY,
    TO_SOAKING,
    TO_SWITCHING,
    TwoLanes,
    lane,
)
from tests.unit.world import World


def make_stop(world: World) -> StopStreamOperator:
    return StopStreamOperator(task_id="stop", home=world.uri, stream=BLUE)


def stopped(world: World, name: str) -> bool:
    desired = lane(world, name).desired()
    return desired is not None and desired.state is DesiredState.STOPPED


def test_stopping_and_starting_mean_the_lane_that_is_live(kept: tuple[World, Any]) -> None:
    world, _ = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.whole()

    with pytest.raises(TaskDeferred) as deferred:
        make_stop(world).execute(world.context())

    assert (stopped(world, BLUE), stopped(world, GREEN)) == (False, True)
    assert lane(world, GREEN).stop_request(1) is not None
    assert deferred.value.trigger.until_parked
    world.lane = GREEN
    world.last_words(Outcome.STOPPED)
    assert make_stop(world).execute_complete(world.context(), {"lane": GREEN})["epoch"] == 1
    StartStreamOperator(task_id="start", home=world.uri, stream=BLUE).execute(world.context())
    assert not stopped(world, GREEN)


def test_a_stream_that_is_moved_while_it_is_stopped_is_stopped_where_it_is(
    kept: tuple[World, Any],
) -> None:
    world, _ = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.begin(*TO_SWITCHING)
    with pytest.raises(TaskDeferred):
        make_stop(world).execute(world.context())
    world.last_words(Outcome.STOPPED)
    cutover.take(*TO_SOAKING)

    with pytest.raises(TaskDeferred):
        make_stop(world).execute_complete(world.context(), {"lane": BLUE, "memory": None})

    assert (stopped(world, BLUE), stopped(world, GREEN)) == (True, True)
    assert lane(world, GREEN).stop_request(1) is not None


@pytest.mark.parametrize("events", [TO_READY, TO_DRAINING], ids=["ready", "draining"])
def test_a_stream_is_stopped_during_a_cutover_by_whoever_looks_first(
    kept: tuple[World, Any], events: tuple[CutoverEvent, ...]
) -> None:
    world, trigger = kept
    TwoLanes(world).begin(*events)
    with pytest.raises(TaskDeferred):
        make_stop(world).execute(world.context())
    world.last_words(Outcome.STOPPED)

    trigger = world.wake(trigger)

    assert make_stop(world).execute_complete(world.context(), {"lane": BLUE})["epoch"] == 1
    assert (trigger.keeps, world.epochs()) == (BLUE, 1)
