"""An upgrade and a cutover bring a driver down by the same acts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.changes.cutover import lane_moves
from airflow_streaming.changes.lane_ground import DownAct, DownStep, step_down, under_change
from airflow_streaming.changes.upgrade import state
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.supervision.decide import decide
from tests.unit.supervision.builders import a_situation, a_stop, minutes
from tests.unit.supervision.steering_cases import (
    ALIVE,
    DEAD,
    HAS_STOPPED,
    HUNG,
    LOST,
    OVERDUE,
)

WHY = "Change 4 hands the output over."


def down(**facts: Any) -> DownStep:
    return step_down(under_change(a_situation(**facts), DesiredState.STOPPED), WHY)


@pytest.mark.parametrize(
    ("facts", "act"),
    [
        pytest.param({"seen": ALIVE}, DownAct.STOP, id="a driver at work gets a stop request"),
        pytest.param({"seen": ALIVE, "stop": a_stop()}, DownAct.WAIT, id="and time to obey it"),
        pytest.param(
            {"seen": HUNG, "stop": a_stop(), "stopping_for": OVERDUE + minutes(1)},
            DownAct.KILL,
            id="a driver that does not obey is killed",
        ),
        pytest.param({"seen": HAS_STOPPED}, DownAct.FENCE, id="a stopped driver is fenced"),
        pytest.param(
            {"seen": HAS_STOPPED, "is_stop_over": True},
            DownAct.FENCE,
            id="whatever end a user's stop has",
        ),
        pytest.param({"seen": DEAD}, DownAct.FENCE, id="a dead driver is fenced"),
        pytest.param({"seen": LOST}, DownAct.ASK, id="a driver out of sight needs a user"),
    ],
)
def test_a_driver_is_brought_down_act_by_act(facts: dict[str, Any], act: DownAct) -> None:
    step = down(**facts)

    assert step.act is act
    assert (step.reason == WHY) is (act in (DownAct.STOP, DownAct.FENCE))


@pytest.mark.parametrize("moves", [lane_moves.Do, state.Do])
def test_each_kind_of_change_has_the_moves_of_the_way_down(moves: Any) -> None:
    assert {act.value for act in DownAct} <= {move.value for move in moves}


def test_a_queued_run_of_the_dag_does_not_end_the_task_of_a_change() -> None:
    waits = a_situation(seen=ALIVE, desired=DesiredState.RUNNING, successor_waits=True)

    before = decide(replace(waits, successor_waits=False))
    assert decide(waits) != before
    assert decide(under_change(waits, DesiredState.RUNNING)) == before
