"""Stopping and starting a stream from a dag."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.model.records.control import (
    Change,
    ChangeEnd,
    ChangeKind,
    ChangeOutcome,
    CircuitState,
    DesiredState,
    EventKind,
)
from airflow_streaming.model.records.epoch import Host, Outcome
from airflow_streaming.operators.switch import StartStreamOperator, StopStreamOperator
from airflow_streaming.supervision.actions import StreamActions
from airflow_streaming.supervision.observer import Observer
from tests.unit.world import World


def make_stop(world: World, **kwargs: Any) -> StopStreamOperator:
    return StopStreamOperator(task_id="stop", home=world.uri, stream="orders", **kwargs)


def make_start(world: World) -> StartStreamOperator:
    return StartStreamOperator(task_id="start", home=world.uri, stream="orders")


def stop_memory(seconds: float) -> dict[str, Any]:
    return {"epoch": 1, "beat": 0, "silent_for": 0.0, "stopping_for": seconds}


def test_the_wish_is_recorded_before_the_driver_is_asked(world: World) -> None:
    world.run()

    with pytest.raises(TaskDeferred) as deferred:
        make_stop(world, reason="release").execute(world.context())

    desired, stop = world.home.desired(), world.home.stop_request(1)
    assert desired is not None
    assert desired.state is DesiredState.STOPPED
    assert stop is not None
    assert stop.reason == "release"
    assert stop.requested_at >= desired.at
    assert deferred.value.trigger.until_parked


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, 420.0, id="of_the_dag"),
        pytest.param({"grace": timedelta(seconds=5)}, 5.0, id="given"),
    ],
)
def test_a_stop_grants_the_grace_of_the_stream_unless_another_is_given(
    world: World, given: dict[str, Any], expected: float
) -> None:
    world.run(world.operator(stop_grace=timedelta(minutes=7)))

    with pytest.raises(TaskDeferred):
        make_stop(world, **given).execute(world.context())

    request = world.home.stop_request(1)
    assert request is not None
    assert request.grace_seconds == expected


def test_a_stop_and_a_start_are_on_the_timeline_once(world: World) -> None:
    world.run()
    for _ in range(2):
        with pytest.raises(TaskDeferred):
            make_stop(world).execute(world.context())
    world.last_words(Outcome.STOPPED)
    world.home.open_circuit(epoch=1, by="task", reason="budget", now=datetime.now(UTC))
    for _ in range(2):
        make_start(world).execute(world.context())

    told = [event.event for event in world.home.events()]
    assert told[-4:] == [
        EventKind.DESIRED,
        EventKind.STOP_REQUESTED,
        EventKind.DESIRED,
        EventKind.CIRCUIT_CLOSED,
    ]


def test_a_driver_that_outlives_its_last_word_is_asked_to_stop_too(world: World) -> None:
    world.run()
    world.last_words(Outcome.COMPLETED)
    driver = world.launcher.drivers[world.epoch().token]
    driver.has_leader = driver.has_child = True

    with pytest.raises(TaskDeferred):
        make_stop(world).execute(world.context())

    assert world.home.stop_request(1) is not None


def test_it_succeeds_when_no_process_of_the_driver_is_left(world: World) -> None:
    world.run()
    with pytest.raises(TaskDeferred):
        make_stop(world).execute(world.context())
    world.last_words(Outcome.STOPPED)

    assert make_stop(world).execute_complete(world.context(), {})["epoch"] == 1


def test_a_stream_that_never_ran_is_stopped_already(world: World) -> None:
    assert make_stop(world).execute(world.context())["epoch"] is None


def test_a_driver_that_ignores_the_request_is_killed_and_proved_dead(world: World) -> None:
    world.run()
    stop = make_stop(world, grace=timedelta(seconds=5))
    with pytest.raises(TaskDeferred):
        stop.execute(world.context())

    told = stop.execute_complete(world.context(), {"memory": stop_memory(21.0)})

    assert told["epoch"] == 1
    assert world.launcher.killed == [1]
    assert world.home.death(1) is not None


def test_a_driver_on_another_host_that_does_not_answer_fails_the_task(world: World) -> None:
    world.run()
    stop = make_stop(world, grace=timedelta(seconds=5))
    with pytest.raises(TaskDeferred):
        stop.execute(world.context())
    world.launcher.here = Host(name="elsewhere")

    with pytest.raises(AirflowFailException, match="declare-dead orders"):
        stop.execute_complete(world.context(), {"memory": stop_memory(21.0)})


def test_a_stop_that_somebody_takes_back_fails_and_says_so(world: World) -> None:
    world.run()
    with pytest.raises(TaskDeferred):
        make_stop(world).execute(world.context())
    world.last_words(Outcome.STOPPED)
    world.home.want(DesiredState.RUNNING, by="ann", reason="not now", now=datetime.now(UTC))

    with pytest.raises(AirflowFailException, match="is running again"):
        make_stop(world).execute_complete(world.context(), {})


def test_a_home_that_has_gone_is_not_taken_for_a_stream_that_is_wanted_again(
    world: World, tmp_path: Path
) -> None:
    world.run()
    stop = make_stop(world)
    with pytest.raises(TaskDeferred):
        stop.execute(world.context())
    stop.home = str(tmp_path / "not-mounted")

    with pytest.raises(HomeUnavailable, match=r"not-mounted.* is not a home"):
        stop.execute_complete(world.context(), {})


def test_starting_records_the_wish_and_closes_the_circuit(world: World) -> None:
    world.run()
    now = datetime.now(UTC)
    world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=now)
    world.home.open_circuit(epoch=1, by="task", reason="budget", now=now)

    make_start(world).execute(world.context())

    desired, circuit = world.home.desired(), world.home.circuit()
    assert desired is not None
    assert desired.state is DesiredState.RUNNING
    assert circuit is not None
    assert circuit.state is CircuitState.CLOSED


def test_the_keep_alive_task_starts_a_stream_whose_stop_is_over(world: World) -> None:
    trigger = world.run()
    stop = make_stop(world, resume_after=timedelta(0), reason="the broker moves")
    with pytest.raises(TaskDeferred):
        stop.execute(world.context())
    world.wake(trigger)
    assert world.epochs() == 1, "The driver has not stopped yet."
    world.last_words(Outcome.STOPPED)

    assert stop.execute_complete(world.context(), {})["epoch"] == 1
    world.wake(trigger)

    assert world.epochs() == 2
    desired = world.home.desired()
    assert desired is not None
    assert (desired.number, desired.state) == (2, DesiredState.RUNNING)
    told = [event.event for event in world.home.events()]
    assert told.count(EventKind.DESIRED) == 2


def test_a_stop_that_was_renewed_since_the_task_looked_is_not_ended(world: World) -> None:
    world.run()
    make = partial(world.home.want, DesiredState.STOPPED, by="ada", reason="a broker")
    now = datetime.now(UTC)
    make(now=now, until=now)
    seen = Observer(world.home, world.launcher).situation()
    make(now=now)

    StreamActions(world.home, world.launcher, by="task").resume(seen, "The stop is over.")

    desired = world.home.desired()
    assert desired is not None
    assert (desired.number, desired.state, desired.until) == (2, DesiredState.STOPPED, None)


@pytest.mark.parametrize("what", [ChangeKind.RESTORE, ChangeKind.UPGRADE])
def test_an_open_change_keeps_a_stream_down_beyond_the_end_of_its_stop(
    world: World, what: ChangeKind
) -> None:
    trigger = world.run()
    with pytest.raises(TaskDeferred):
        make_stop(world, resume_after=timedelta(0)).execute(world.context())
    world.last_words(Outcome.STOPPED)
    now = datetime.now(UTC)
    world.home.begin_change(
        Change(
            number=1,
            stream="orders",
            what=what,
            replaced=1,
            deployment=2,
            checkpoint="/ck",
            by="ada",
            reason="yesterday",
            at=now,
        )
    )

    world.wake(trigger)
    assert world.epochs() == 1
    world.home.end_change(
        ChangeEnd(number=1, outcome=ChangeOutcome.ABANDONED, by="ada", reason="no", at=now)
    )
    world.wake(trigger)

    assert world.epochs() == 2
