"""The task that keeps a stream alive keeps the lane that is live, through a cutover and back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_streaming.core.change import ChangeOutcome
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding, report_of
from airflow_streaming.core.control import DesiredState, EventKind
from airflow_streaming.core.cutover.table import CutoverEvent
from airflow_streaming.core.epoch import Outcome
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators.switch import StartStreamOperator, StopStreamOperator
from tests.unit.two_lanes import (
    BLUE,
    GREEN,
    TO_DRAINING,
    TO_FINALISED,
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


@pytest.fixture
def kept(world: World) -> tuple[World, Any]:
    """Return a stream that runs, and the trigger of the task that keeps it."""
    return world, world.run()


def launched(world: World) -> list[tuple[str, int]]:
    return [(one.epoch.stream, one.epoch.number) for one in world.launcher.launched]


def wake(world: World, trigger: Any, operator: Any = None) -> Any:
    return world.wake(trigger, operator)


def test_a_cutover_takes_nothing_from_blue_before_it_is_drained(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    assert trigger.keeps == BLUE
    TwoLanes(world).begin(*TO_READY)
    world.crash()

    trigger = wake(world, trigger)

    assert (trigger.keeps, world.epochs()) == (BLUE, 2)


@pytest.mark.parametrize("events", HANDS_OFF.values(), ids=HANDS_OFF.keys())
def test_while_blue_is_taken_down_it_restarts_nothing(
    kept: tuple[World, Any], events: tuple[CutoverEvent, ...]
) -> None:
    world, trigger = kept
    TwoLanes(world).begin(*events)
    world.ask_to_stop()
    world.last_words(Outcome.STOPPED)

    trigger = wake(world, trigger)

    assert (trigger.keeps, trigger.watched, world.epochs()) == (BLUE, 1, 1)


def test_a_blue_that_is_killed_while_it_is_drained_is_the_cutovers_to_judge(
    kept: tuple[World, Any],
) -> None:
    world, trigger = kept
    TwoLanes(world).begin(*TO_DRAINING)
    world.crash()

    wake(world, trigger)

    assert world.home.restart_decision(1) is None
    assert world.epochs() == 1


def test_it_follows_green_in_the_same_task(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.begin(*TO_SWITCHING)
    world.last_words(Outcome.STOPPED)
    cutover.take(*TO_SOAKING)

    trigger = wake(world, trigger)

    assert (trigger.keeps, trigger.stream, trigger.watched) == (GREEN, BLUE, 1)
    assert launched(world) == [(BLUE, 1), (GREEN, 1)]
    assert lane(world, GREEN).supervision() is not None, "others judge it by the dag's rules"


def test_what_fails_in_the_soak_is_left_to_the_cutover(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.begin(*TO_SWITCHING, *TO_SOAKING)
    trigger = wake(world, trigger)
    world.lane = GREEN
    world.crash()

    trigger = wake(world, trigger)

    assert (trigger.keeps, world.epochs()) == (GREEN, 1)


def test_after_a_cutover_it_keeps_green_alive(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.whole()
    world.last_words(Outcome.STOPPED)
    trigger = wake(world, trigger)
    world.lane = GREEN
    world.crash()

    trigger = wake(world, trigger)

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

    trigger = wake(world, trigger)

    assert (trigger.keeps, trigger.watched) == (BLUE, 2)


def test_after_a_rollback_it_follows_blue_again(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.begin(*TO_SWITCHING, *TO_SOAKING)
    trigger = wake(world, trigger)
    assert trigger.keeps == GREEN
    cutover.take(*TO_ROLLED_BACK)
    cutover.close(ChangeOutcome.ROLLED_BACK)

    trigger = wake(world, trigger)

    assert (trigger.keeps, trigger.watched) == (BLUE, 1)
    assert launched(world) == [(BLUE, 1), (GREEN, 1)]


def test_the_next_cutover_leads_back_to_the_first_lane(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    there = TwoLanes(world)
    there.start_green()
    there.whole()
    world.last_words(Outcome.STOPPED)
    trigger = wake(world, trigger)
    back = TwoLanes(world, blue=GREEN)
    made = back.start_green()
    back.whole()

    trigger = wake(world, trigger)

    assert (trigger.keeps, trigger.watched, made.number) == (BLUE, 2, 2)
    assert made.checkpoint.endswith("orders/checkpoints/000002")


def test_green_is_kept_by_the_epoch_it_has_and_not_by_blues(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    world.crash()
    trigger = wake(world, trigger)
    assert trigger.watched == 2
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.whole()

    trigger = wake(world, trigger)

    assert (trigger.keeps, trigger.watched) == (GREEN, 1)
    world.lane = GREEN
    world.crash()
    assert wake(world, trigger).watched == 2


def test_a_home_that_is_not_mounted_any_more_leads_nowhere(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.whole()
    trigger = wake(world, trigger)
    home, away = Path(world.uri), Path(f"{world.uri}.away")
    home.rename(away)

    trigger = wake(world, trigger)

    assert (trigger.keeps, trigger.watched) == (GREEN, 1)
    assert len(launched(world)) == 2
    shutil.rmtree(home, ignore_errors=True)
    away.rename(home)
    assert wake(world, trigger).watched == 1


def test_a_lane_without_a_deployment_is_not_followed(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    TwoLanes(world).whole()

    trigger = wake(world, trigger)

    assert (trigger.keeps, trigger.unable_to) == (BLUE, "follow")


def test_a_dag_with_the_old_code_does_not_fight_green(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    old = world.script.read_text()
    world.script.write_text("new = 1\n")
    cutover.start_green(conf={"spark.executor.memory": "2g"})
    cutover.whole()
    world.script.write_text(old)
    trigger = wake(world, trigger)

    trigger = world.run()

    green = lane(world, GREEN)
    newest = green.newest_deployment()
    assert (trigger.keeps, newest and newest.number) == (GREEN, 1)
    said = [event for event in green.events() if event.event is EventKind.PROPOSED][-1].message
    assert "application_sha256" in said
    assert "checkpoint" not in said
    assert "output" not in said


def test_not_even_when_the_gates_would_allow_the_old_code(
    kept: tuple[World, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _ = kept
    finding = GateFinding(rule="conf", severity=GateDecision.ALLOWED, message="It is fine.")
    monkeypatch.setattr(
        "airflow_streaming.upgrade.preflight.ask_gates", lambda *_, **__: report_of([finding])
    )
    cutover = TwoLanes(world)
    cutover.start_green(conf={"spark.executor.memory": "2g"})
    cutover.whole()
    operator = world.operator()
    operator.apply_allowed = True

    world.run(operator)

    green = lane(world, GREEN)
    newest = green.newest_deployment()
    assert newest is not None
    assert newest.number == 1
    said = [event for event in green.events() if event.event is EventKind.PROPOSED][-1].message
    assert "blue lane (deployment 1), and the green one is live" in said


def test_nothing_is_deployed_while_a_cutover_is_open_whoever_asks(
    kept: tuple[World, Any],
) -> None:
    world, _ = kept
    TwoLanes(world).begin(*TO_READY)

    world.run(world.operator(conf={"spark.executor.memory": "2g"}), restart=True)

    newest = world.home.newest_deployment()
    assert newest is not None
    assert newest.number == 1
    said = [e for e in world.home.events() if e.event is EventKind.PROPOSED][-1].message
    assert "It has to wait for the end of change 1." in said


def test_a_deployment_that_was_proposed_before_the_cutover_began_is_not_made(
    kept: tuple[World, Any],
) -> None:
    world, _ = kept
    hook = world.operator(conf={"spark.executor.memory": "2g"}).open_hook(world.context())
    proposed, source = hook.proposal()
    TwoLanes(world).begin()

    assert not hook.keeper.deploy(proposed, source)


# Places: the dag goes on naming what it named.


def test_green_begins_in_places_of_its_own_whatever_the_dag_names(
    world: World, tmp_path: Path
) -> None:
    places: dict[str, Any] = {"output": str(tmp_path / "out"), "checkpoint": str(tmp_path / "chk")}
    world.run(world.operator(**places))

    green = TwoLanes(world).start_green(**places)

    assert green.stream == GREEN
    assert green.colour == "green"
    assert green.output.endswith("home/orders.green/output/000001")
    assert green.checkpoint.endswith("home/orders.green/checkpoints/000001")


def test_a_place_that_the_dag_still_names_is_not_proposed_to_green(
    world: World, tmp_path: Path
) -> None:
    places: dict[str, Any] = {"output": str(tmp_path / "out"), "checkpoint": str(tmp_path / "chk")}
    world.run(world.operator(**places))
    cutover = TwoLanes(world)
    cutover.start_green(**places)
    cutover.whole()

    world.run(world.operator(**places))

    assert not [e for e in lane(world, GREEN).events() if e.event is EventKind.PROPOSED]


def test_a_new_place_is_proposed_to_green(world: World, tmp_path: Path) -> None:
    world.run()
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.whole()

    world.run(world.operator(output=str(tmp_path / "new")))

    said = [e for e in lane(world, GREEN).events() if e.event is EventKind.PROPOSED][-1].message
    assert "output differ" in said


def test_a_stream_cannot_have_the_name_of_a_lane(world: World) -> None:
    with pytest.raises(AirflowFailException, match="kept for the other lane"):
        world.operator(name="orders.green").open_hook(world.context())


def test_a_hook_is_given_a_lane_of_its_own_stream_only(kept: tuple[World, Any]) -> None:
    hook = kept[0].operator().open_hook(kept[0].context())

    with pytest.raises(SpecError, match="no lane of stream 'orders'"):
        hook.lane("payments.green")


# Stopping and starting.


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
    assert make_stop(world).on_event(world.context(), {"lane": GREEN})["epoch"] == 1
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
        make_stop(world).on_event(world.context(), {"lane": BLUE, "memory": None})

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

    trigger = wake(world, trigger)

    assert make_stop(world).on_event(world.context(), {"lane": BLUE})["epoch"] == 1
    assert (trigger.keeps, world.epochs()) == (BLUE, 1)


def test_a_final_cutover_leaves_the_stopped_blue_alone(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    cutover.start_green()
    cutover.begin(*TO_SWITCHING, *TO_SOAKING, *TO_FINALISED)
    world.last_words(Outcome.STOPPED)

    trigger = wake(world, trigger)

    assert trigger.keeps == GREEN
    assert world.epochs() == 1
