from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_streaming.changes.cutover.lane_moves import Do, bring_down
from airflow_streaming.changes.cutover.view import LaneView
from airflow_streaming.model.observation import Process
from airflow_streaming.model.records.epoch import Exit, Outcome
from tests.unit.changes.cutover.sights import GONE, RUNNING, lane
from tests.unit.home.make import make_exit

A_MOMENT = timedelta(seconds=1)


def ended(exit: Exit, process: Process = RUNNING, stopping: timedelta = A_MOMENT) -> LaneView:
    """Return a lane whose driver was asked to stop and has said its last word."""
    found = lane("orders", "drained", 1)
    assert found.situation.seen is not None
    seen = replace(found.situation.seen, exit=exit, process=process)
    situation = replace(found.situation, seen=seen, stopping_for=stopping)
    return replace(found, situation=situation)


DRAINED = make_exit(7, outcome=Outcome.STOPPED)
CUT_OFF = replace(DRAINED, cut_off=True)


@pytest.mark.parametrize(
    ("found", "in_haste", "expected"),
    [
        pytest.param(ended(DRAINED), True, Do.FENCE, id="drained"),
        pytest.param(ended(DRAINED), False, Do.WAIT, id="drained, and there is time"),
        pytest.param(ended(CUT_OFF), True, Do.WAIT, id="cut off within a batch"),
        pytest.param(ended(make_exit(7)), True, Do.WAIT, id="failed"),
        pytest.param(ended(CUT_OFF, process=GONE), True, Do.FENCE, id="cut off, and gone"),
        pytest.param(
            ended(CUT_OFF, stopping=timedelta(hours=1)),
            True,
            Do.KILL,
            id="cut off, and its Spark lives on",
        ),
    ],
)
def test_in_haste_the_word_of_a_driver_that_has_drained_is_enough_and_no_other(
    found: LaneView, in_haste: bool, expected: Do
) -> None:
    move = bring_down(found, 1, "Change 4 hands the output over.", in_haste=in_haste)
    assert move is not None
    assert move.do is expected
