"""What tasks and triggers hand to one another, so that nothing is counted anew at each deferral."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_streaming.changes.cutover.lanes import StepSeen
from airflow_streaming.model.durations import CLOCKS_DIFFER
from airflow_streaming.model.records.cutover_table import CutoverState
from tests.unit.changes.cutover.cutting import Cutting

S = CutoverState


def test_a_state_is_timed_across_deferrals(tmp_path: Path) -> None:
    world = Cutting(tmp_path, green="silent")
    world.begin(deadlines={S.STARTING: timedelta(seconds=50)})
    world.advance(S.STARTING)
    memory, ages = None, list[float]()
    for _ in range(4):
        # Every task has a clock of its own, which says nothing to the next one.
        world.clock += 1e6
        engine = world.engine(memory=memory)
        engine.look()
        world.pass_time(timedelta(seconds=20))
        view, move = engine.look()
        ages.append(view.lasted.total_seconds())
        memory = json.loads(json.dumps(engine.memory()))

    assert ages == [20, 40, 60, 80]
    assert view.now - view.history[-1].at < CLOCKS_DIFFER
    assert move.event is not None
    assert "has lasted longer than" in move.reason


def test_what_is_not_looked_at_is_not_counted() -> None:
    clock = [100.0]
    first = StepSeen(clock=lambda: clock[0])
    first.seen_for(3, 1)
    clock[0] += 7
    known = first.memory()
    clock[0] = 5.0

    then = StepSeen(known, clock=lambda: clock[0])
    clock[0] += 2

    assert then.seen_for(3, 1) == timedelta(seconds=9)


@pytest.mark.parametrize("newest", [(3, 2), (4, 1)], ids=["another step", "another change"])
def test_another_step_is_timed_from_its_beginning(newest: tuple[int, int]) -> None:
    seen = StepSeen({"change": 3, "step": 1, "seen_for": 50.0}, clock=lambda: 7.0)

    assert seen.seen_for(*newest) == timedelta(0)


@pytest.mark.parametrize("which", ["the newest step", "an earlier step"])
def test_a_step_of_a_date_to_come_neither_stops_the_deadline_nor_reaches_it(
    tmp_path: Path, which: str
) -> None:
    world = Cutting(tmp_path, green="silent")
    world.begin(deadlines={S.STARTING: timedelta(hours=1)})
    world.advance(S.STARTING)
    view, _ = world.engine().look()
    place = -1 if which == "the newest step" else 0
    steps = list(view.history)
    steps[place] = replace(steps[place], at=view.now + timedelta(days=3_650))
    if place == 0:
        steps.append(replace(steps[-1], number=len(steps) + 1, at=view.now))

    def lasted(later: timedelta) -> timedelta:
        return replace(view, history=tuple(steps), now=view.now + later).lasted

    assert lasted(timedelta(hours=2)) > timedelta(hours=1)
    if place == 0:
        assert lasted(timedelta(minutes=30)) < timedelta(hours=1)
