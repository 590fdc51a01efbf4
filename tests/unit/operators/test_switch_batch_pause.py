"""Pauses between batches of a run: opened once, held, closed, and ended by themselves when every task died."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_streaming.exceptions import PauseRefused
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.records.control import (
    BatchPause,
    BatchPauseEnd,
    Change,
    ChangeKind,
    EventKind,
)
from airflow_streaming.model.status import PauseStatus
from airflow_streaming.operators.switch import PauseStreamOperator, ResumeStreamOperator
from airflow_streaming.services.freshness import planned_stops
from airflow_streaming.supervision.observer import Observer
from tests.unit.world import World

HELD = PauseStatus(number=1, is_held=True, held_for_s=2.0, left_s=3000.0)


def make_begin(world: World, **given: Any) -> PauseStreamOperator:
    return PauseStreamOperator(task_id="begin", home=world.uri, stream="orders", **given)


def make_end(world: World) -> ResumeStreamOperator:
    return ResumeStreamOperator(task_id="end", home=world.uri, stream="orders")


def opened(world: World, **given: Any) -> Any:
    """Run the setup until it defers, and return its trigger."""
    with pytest.raises(TaskDeferred) as deferred:
        make_begin(world, **given).execute(world.context())
    trigger = deferred.value.trigger
    return type(trigger)(**trigger.serialize()[1])


def event(trigger: Any) -> Any:
    return trigger.look_once()[0]


def test_the_setup_waits_until_the_stream_is_held(world: World) -> None:
    world.run()
    world.say(beat=1)
    trigger = opened(world)
    assert event(trigger) is None

    world.say(beat=2, pause=HELD)
    woken = event(trigger)
    assert woken is not None
    result = make_begin(world).execute_complete(world.context(), woken)

    assert result == {"stream": "orders", "lane": "orders", "pause": 1}
    make_end(world).execute(world.context())
    assert world.home.batch_pause_end(1) is not None
    told = [one.message for one in world.home.events() if one.event is EventKind.PAUSED]
    assert told == [
        "Pause 1 opened: Asked from a dag.",
        "Pause 1 closed: Asked from a dag.",
    ]


def test_a_try_after_a_killed_worker_finds_the_window_of_its_run(world: World) -> None:
    world.run()
    world.say(beat=1)
    opened(world)
    opened(world)

    assert [pause.number for pause in world.home.batch_pauses()] == [1]


def test_a_cleared_setup_opens_a_new_window(world: World) -> None:
    world.run()
    world.say(beat=1, pause=HELD)
    make_begin(world).execute(world.context())
    make_end(world).execute(world.context())
    opened(world)

    assert [pause.number for pause in world.home.batch_pauses()] == [1, 2]


def test_another_run_waits_for_the_end_of_a_window(world: World) -> None:
    world.run()
    world.say(beat=1)
    opened(world)
    world.ti.run_id = "run-2"

    with pytest.raises(PauseRefused, match="Pause 1 of orders is open by"):
        make_begin(world).execute(world.context())


def test_a_stream_that_cannot_be_held_continues(world: World) -> None:
    world.run()
    world.say(beat=1)
    trigger = opened(world)
    refused = PauseStatus(number=1, refusal="Query 'q' runs in real-time mode.")
    world.say(beat=2, pause=refused)

    with pytest.raises(PauseRefused, match="real-time mode"):
        make_begin(world).execute_complete(world.context(), event(trigger))
    assert world.home.batch_pause_end(1) is not None


def test_a_stopped_stream_needs_no_driver(world: World) -> None:
    world.run()
    world.crash()
    result = make_begin(world).execute(world.context())

    assert result["pause"] == 1


def test_the_teardown_fails_when_the_stream_continued_before(world: World) -> None:
    world.run()
    world.say(beat=1, pause=HELD)
    make_begin(world).execute(world.context())
    world.say(beat=2)

    with pytest.raises(AirflowFailException, match="does not hold its queries"):
        # The driver has let its queries continue by itself.
        make_end_later(world)
    assert world.home.batch_pause_end(1) is not None


def make_end_later(world: World) -> None:
    make_end(world).execute(world.context())


def test_a_teardown_without_a_window_of_its_run_does_nothing(world: World) -> None:
    world.run()
    make_end(world).execute(world.context())
    world.say(beat=1)
    opened(world)
    world.ti.run_id = "run-2"
    make_end(world).execute(world.context())

    assert world.home.batch_pause_end(1) is None


def test_a_change_in_progress_refuses_a_window(world: World) -> None:
    world.run()
    change = Change(
        number=1,
        stream="orders",
        what=ChangeKind.RESTORE,
        replaced=1,
        deployment=2,
        checkpoint="/c",
        by="ann",
        reason="bad rows",
        at=datetime.now(UTC),
    )
    world.home.begin_change(change)

    with pytest.raises(PauseRefused, match=r"Change 1 of orders \(restore\) is open"):
        make_begin(world).execute(world.context())


def test_a_keep_alive_task_leaves_a_held_stream_alone(world: World) -> None:
    world.run()
    world.say(beat=1, pause=HELD)
    observer = Observer(world.home, world.launcher)
    observer.situation()

    assert observer.state is VerdictState.PAUSED


def test_a_window_counts_as_planned_for_the_freshness_objective(world: World) -> None:
    now = datetime.now(UTC)
    world.run()
    world.say(beat=1)
    opened(world, longest=timedelta(minutes=5), begin_within=timedelta(minutes=1))
    pause = world.home.batch_pause(1)
    spans = list(planned_stops(world.home, now + timedelta(hours=1)))
    assert [(one.begin, one.end) for one in spans] == [(pause.at, pause.until)]

    end = BatchPauseEnd(number=1, by="ann", reason="done", at=pause.at + timedelta(minutes=2))
    world.home.end_pause(end)
    spans = list(planned_stops(world.home, now + timedelta(hours=1)))
    assert [(one.begin, one.end) for one in spans] == [(pause.at, end.at)]


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_window_that_another_user_has_closed_fails_its_run(
    world: World, is_followed: bool
) -> None:
    world.run()
    world.say(beat=1, pause=HELD)
    make_begin(world).execute(world.context())
    now = datetime.now(UTC)
    world.home.end_pause(BatchPauseEnd(number=1, by="ann", reason="in my way", at=now))
    if is_followed:
        of_ann = BatchPause(
            number=2, by="ann", reason="x", at=now, begin_within=60.0, longest=300.0
        )
        world.home.begin_pause(of_ann, now)

    with pytest.raises(AirflowFailException, match=r"pause 1: Closed by ann: in my way\."):
        make_end(world).execute(world.context())


def test_a_window_that_its_own_run_has_closed_is_closed_once(world: World) -> None:
    world.run()
    world.say(beat=1, pause=HELD)
    make_begin(world).execute(world.context())

    make_end(world).execute(world.context())
    first = world.home.batch_pause_end(1)
    make_end(world).execute(world.context())

    assert world.home.batch_pause_end(1) == first


@pytest.mark.parametrize("minutes", [0.5, 1500], ids=["too_short", "too_long"])
def test_the_length_of_a_window_is_bounded(world: World, minutes: float) -> None:
    with pytest.raises(Exception, match="longest"):
        make_begin(world, longest=timedelta(minutes=minutes))
