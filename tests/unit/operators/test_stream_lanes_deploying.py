"""What the dag asks for while a cutover is open, and after it, and in which lane."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import GateDecision, GateFinding, report_of
from airflow_streaming.model.records.control import EventKind
from tests.unit.two_lanes import GREEN, TO_READY, TwoLanes, lane
from tests.unit.world import World


def test_a_dag_with_the_old_code_does_not_fight_green(kept: tuple[World, Any]) -> None:
    world, trigger = kept
    cutover = TwoLanes(world)
    old = world.script.read_text()
    world.script.write_text("new = 1\n")
    cutover.start_green(conf={"spark.executor.memory": "2g"})
    cutover.whole()
    world.script.write_text(old)
    trigger = world.wake(trigger)

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
        "airflow_streaming.changes.upgrade.preflight.ask_gates",
        lambda *_, **__: report_of([finding]),
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
    assert "(deployment 1), and the green lane is live" in said


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
    assert "Change 1 must finish first." in said


def test_a_deployment_that_was_proposed_before_the_cutover_began_is_not_made(
    kept: tuple[World, Any],
) -> None:
    world, _ = kept
    hook = world.operator(conf={"spark.executor.memory": "2g"}).open_hook(world.context())
    proposed, source = hook.proposal()
    TwoLanes(world).begin()

    assert not hook.controller.deploy(proposed, source)


# Places: the dag goes on naming what it named.


def test_green_begins_in_places_of_its_own_whatever_the_dag_names(
    world: World, tmp_path: Path
) -> None:
    places: dict[str, Any] = {"output": str(tmp_path / "out"), "checkpoint": str(tmp_path / "chk")}
    world.run(world.operator(**places))

    green = TwoLanes(world).start_green(**places)

    assert green.stream == GREEN
    assert green.color == "green"
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
    assert "(1): output /" in said


def test_a_stream_cannot_have_the_name_of_a_lane(world: World) -> None:
    with pytest.raises(SpecError, match="kept for the other lane"):
        world.operator(name="orders.green")


def test_a_hook_is_given_a_lane_of_its_own_stream_only(kept: tuple[World, Any]) -> None:
    hook = kept[0].operator().open_hook(kept[0].context())

    with pytest.raises(SpecError, match="not a lane of stream 'orders'"):
        hook.lane("payments.green")
