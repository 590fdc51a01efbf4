"""Failures in a row are counted over drivers, whether or not each of them failed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.model.records.control import EventKind
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.services import streams
from tests.unit.world import World


@pytest.mark.parametrize(
    ("worked_for", "batches", "count"),
    [(timedelta(minutes=19), 567, 1), (timedelta(minutes=1), 30, 2), (timedelta(hours=1), 3, 2)],
    ids=["it had recovered", "it had worked too briefly", "it had committed too little"],
)
def test_a_driver_that_a_user_stopped_counts_by_its_progress(
    world: World, worked_for: timedelta, batches: int, count: int
) -> None:
    trigger = world.run()
    world.crash()
    trigger = world.wake(trigger)
    world.say(progressed_for=worked_for, queries=(world.query(batches=batches),))
    streams.stop(world.home, by="ada", reason="night")
    world.last_words(Outcome.STOPPED)
    streams.start(world.home, by="ada", reason="morning")
    trigger = world.wake(trigger)
    assert world.epochs() == 3
    world.crash()
    world.wake(trigger)

    decision = world.home.restart_decision(3)

    assert decision is not None
    assert decision.consecutive_failures == count
    told = [e for e in world.home.events() if e.event is EventKind.RESTART_DECIDED]
    assert told[-1].facts["failures_in_a_row"] == str(count)


@pytest.mark.parametrize(
    ("retryable", "event"),
    [(True, EventKind.RESTART_DECIDED), (False, EventKind.CIRCUIT_OPENED)],
)
def test_a_failure_leaves_one_event_of_its_decision(
    world: World, retryable: bool, event: EventKind
) -> None:
    trigger = world.run()
    world.last_words(Outcome.FAILED, retryable=retryable)
    if retryable:
        world.wake(trigger)
    else:
        with pytest.raises(AirflowFailException):
            world.wake(trigger)

    decided = {EventKind.RESTART_DECIDED, EventKind.CIRCUIT_OPENED}
    told = [one for one in world.home.events() if one.event in decided]
    assert [one.event for one in told] == [event]
    assert told[0].facts["failures_in_a_row"] == "1"
