"""Engines that sleep too long or die at the wrong moment, and people who change their mind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.cutover.engine import Cutover
from airflow_streaming.changes.cutover.lane_moves import Do, Move
from airflow_streaming.changes.cutover.records import Recorder
from airflow_streaming.changes.cutover.view import CutoverView
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import Change, DesiredState
from airflow_streaming.model.records.cutover_table import CutoverCommand, CutoverState
from tests.unit.changes.cutover.cut_short import WAYS
from tests.unit.changes.cutover.cutting import Cutting
from tests.unit.home.make import SCRIPT

S = CutoverState
RUNNING, STOPPED = DesiredState.RUNNING, DesiredState.STOPPED


def until_it_would(world: Cutting, engine: Cutover, do: Do) -> tuple[CutoverView, Move]:
    """Go on until a move comes next; return it undone, as somebody has it who falls asleep."""
    for _ in range(300):
        view, move = engine.look()
        if move.do is do:
            return view, move
        if move.is_passive:
            world.tick()
        else:
            engine._acts.do(view, move)
    raise AssertionError(f"{do} never came: {view.state}, {move}")


def awake(engine: Cutover, view: CutoverView, move: Move) -> None:
    engine._acts.do(view, move)


@pytest.mark.parametrize("is_within", [False, True], ids=["before it looks", "after it looked"])
def test_whoever_wakes_up_late_does_not_stop_the_live_stream(
    is_within: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Cutting(tmp_path)
    world.begin(finalizes_by_itself=False)
    world.drive(S.SOAKING)
    late = world.engine(by="late")
    late.command(CutoverCommand.KEEP, "It stays.")
    view, move = until_it_would(world, late, Do.WANT_STOPPED)
    world.drive()
    # What the next cutover does with its green, and a person may: it is wanted running again.
    world.want(RUNNING, "orders")
    if is_within:
        monkeypatch.setattr(StreamHome, "steps", lambda *_: view.history)

    awake(late, view, move)

    desired = world.home("orders").desired()
    assert desired is not None
    assert (desired.number, desired.state) == (2, RUNNING)


def test_a_guest_that_comes_after_the_end_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Cutting(tmp_path)
    world.begin()
    late = world.engine(by="late")
    view, move = late.look()
    invite = Recorder._invite
    was_asleep: list[str] = []

    def slowly(recorder: Recorder, home: StreamHome, change: Change) -> None:
        if not was_asleep:
            was_asleep.append(home.name)
            world.engine(by="other").command(CutoverCommand.ABORT, "Not today.")
            assert world.drive().state is S.ABORTED
        invite(recorder, home, change)

    monkeypatch.setattr(Recorder, "_invite", slowly)
    awake(late, view, move)

    assert world.home("orders.green").unfinished_change() is None
    assert world.begin(key="run-2") == 2


def test_a_guest_whose_maker_has_died_does_not_lock_its_lane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Cutting(tmp_path)
    world.begin()
    world.drive(S.STARTING)
    world.engine().command(CutoverCommand.ABORT, "Not today.")
    monkeypatch.setattr(StreamHome, "end_change", _but_not_of("orders.green"))
    world.drive()
    monkeypatch.undo()
    assert world.home("orders.green").unfinished_change() is not None

    assert world.begin(key="run-2") == 2
    assert world.home("orders.green").unfinished_change() is None


def _but_not_of(lane: str) -> Any:
    end_change = StreamHome.end_change
    return lambda home, end: end if home.name == lane else end_change(home, end)


def test_a_rollback_of_a_stream_that_is_wanted_stopped_leaves_no_driver(tmp_path: Path) -> None:
    world = Cutting(tmp_path, **WAYS["handover"])
    world.begin()
    world.drive(S.SOAKING)
    world.has_keep_alive = False

    world.want(STOPPED, "orders.green")
    progress = world.drive()

    assert progress.state is S.ROLLED_BACK
    assert (world.running("orders"), world.running("orders.green")) == (None, None)
    world.has_keep_alive = True
    world.want(RUNNING, "orders")
    for _ in range(3):
        world.tick()
    assert world.running("orders") == 2
    assert world.faults() == []


def test_a_blue_that_nobody_lets_go_on_is_started_by_its_keep_alive_task(tmp_path: Path) -> None:
    world = Cutting(tmp_path, **WAYS["handover"])
    world.begin(finalizes_by_itself=False)
    world.drive(S.SOAKING)
    engine = world.engine(by="dies")
    engine.command(CutoverCommand.ROLL_BACK, "It is too dear.")
    view, _ = until_it_would(world, engine, Do.RELEASE)
    assert view.state is S.ROLLED_BACK

    for _ in range(20):
        world.tick()

    assert not world.epoch("orders").standby
    sink = world.sink(world.home("orders").deployment(2))
    assert max(end for _, end in sink.batches.values()) == world.produced
    assert world.faults() == []


@pytest.mark.parametrize("more", ["handover", "carried"])
def test_blue_does_not_come_back_with_what_somebody_else_has_deployed(
    more: str, tmp_path: Path
) -> None:
    world = Cutting(tmp_path, **WAYS[more])
    world.begin(finalizes_by_itself=False)
    world.drive(S.SOAKING)
    home = world.home("orders")
    first = home.deployment(1)
    home.create_deployment(world.deployment("orders", 2, output=first.output), SCRIPT)

    assert world.drive().state is S.ROLLED_BACK
    for _ in range(3):
        world.tick()

    back = home.newest_deployment()
    assert back is not None
    assert (back.number, world.running("orders")) == (3, 3)
    assert (back.checkpoint == first.checkpoint) is (more == "handover")
    assert world.faults() == []


def test_the_last_word_counts_when_a_person_changes_his_mind_in_a_rollback(tmp_path: Path) -> None:
    world = Cutting(tmp_path)
    world.begin()
    world.drive(S.SOAKING)
    world.want(STOPPED, "orders.green")
    engine = world.engine()
    awake(engine, *until_it_would(world, engine, Do.WANT_STOPPED))

    assert world.live_lane() == "orders.green"
    world.want(RUNNING, "orders.green")
    assert world.drive().state is S.ROLLED_BACK
    for _ in range(3):
        world.tick()

    assert world.running("orders") is not None
