"""A keep-alive task keeps blue alive until a cutover takes it down, and then looks on."""

from __future__ import annotations

from typing import Any, Final

import pytest

from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.cutover import CutoverStanding
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.supervision.decide import Action, decide
from tests.unit.supervision.builders import (
    NOW,
    a_restart,
    a_situation,
    a_status,
    a_stop,
    an_exit,
    minutes,
    observed,
    seconds,
)

S = CutoverState
GONE: Final = ProcessState.GONE
FAILED: Final[dict[str, Any]] = {
    "seen": observed(GONE, exit=an_exit()),
    "decision": a_restart(),
}
DRAINED: Final[dict[str, Any]] = {
    "seen": observed(GONE, exit=an_exit(Outcome.STOPPED)),
    "stop": a_stop(),
}
HANDS_OFF: Final = frozenset(
    {S.DRAINING, S.SWITCHING, S.LIVE, S.SOAKING, S.FINALIZING, S.ABORTING, S.ROLLING_BACK}
)


def a_cutover(state: CutoverState, **changes: Any) -> CutoverStanding:
    told: dict[str, Any] = {"change": 3, "green": "orders.green", "state": state, "since": NOW}
    return CutoverStanding(**told | changes)


@pytest.mark.parametrize("sight", [FAILED, DRAINED], ids=["failed", "drained"])
@pytest.mark.parametrize("state", CutoverState)
def test_who_starts_a_driver_depends_on_how_far_it_is(
    state: CutoverState, sight: dict[str, Any]
) -> None:
    step = decide(a_situation(**sight, change=a_cutover(state)))

    assert step.action is (Action.WATCH if state in HANDS_OFF else Action.LAUNCH)


def test_whoever_looks_on_says_why() -> None:
    step = decide(a_situation(**DRAINED, change=a_cutover(S.ROLLING_BACK)))

    assert step.reason.startswith(
        "Change 3 (cutover to orders.green) is in progress: rolling back. "
    )


@pytest.mark.parametrize("state", CutoverState)
def test_a_person_who_wants_it_stopped_gets_it_in_every_state(state: CutoverState) -> None:
    desired = {"desired": DesiredState.STOPPED}

    assert decide(a_situation(**desired, change=a_cutover(state))).action is Action.STOP
    assert decide(a_situation(**FAILED | desired, change=a_cutover(state))).action is Action.PARK


@pytest.mark.parametrize(
    ("state", "deadline", "patience"),
    [
        (S.READY, minutes(60), minutes(90)),
        (S.COMPARING, minutes(0), minutes(30)),
        (S.DRAINING, minutes(5), minutes(10)),
        (S.ABORTING, minutes(0), minutes(5)),
        (S.FINALIZED, minutes(0), minutes(5)),
    ],
)
def test_a_cutover_that_nobody_finishes_is_told(
    state: CutoverState, deadline: Any, patience: Any
) -> None:
    def told(age: Any) -> Any:
        change = a_cutover(state, since=NOW - age, deadline=deadline)
        return decide(a_situation(change=change, tells=True))

    assert told(patience).action is Action.WATCH
    (alert,) = told(patience + seconds(1)).alerts
    assert (alert.alert, alert.rule) == (AlertKind.UNHEALTHY, "unfinished_cutover")
    assert "airflow-streaming cutover status orders" in alert.remedy


WAITS: Final[dict[str, Any]] = {"seen": observed(status=a_status(standby=True))}


@pytest.mark.parametrize(
    ("change", "action"),
    [
        pytest.param(None, Action.STOP, id="nobody is at it"),
        pytest.param(a_cutover(S.ROLLED_BACK), Action.WATCH, id="it ended just now"),
        pytest.param(
            a_cutover(S.ROLLED_BACK, since=NOW - minutes(6)), Action.STOP, id="it ended long ago"
        ),
        pytest.param(a_cutover(S.LIVE, since=NOW - minutes(60)), Action.WATCH, id="it is at it"),
    ],
)
def test_a_driver_that_waits_at_the_barrier_for_nobody_is_replaced(
    change: CutoverStanding | None, action: Action
) -> None:
    assert decide(a_situation(**WAITS, change=change)).action is action
    assert decide(a_situation(**WAITS, may_stand_by=True)).action is Action.WATCH


def test_of_a_lane_that_is_left_nothing_more_is_told() -> None:
    late = a_cutover(S.DRAINING, since=NOW - minutes(60))

    step = decide(a_situation(**FAILED, change=late, tells=True, follows="orders.green"))

    assert (step.action, step.alerts) == (Action.FOLLOW, ())
    assert step.reason == "Lane orders.green is live now."


def test_one_whose_terms_cannot_be_read_and_one_that_was_not_closed_say_so() -> None:
    assert str(a_cutover(S.READY, green="")) == "Change 3 (cutover) is in progress: ready."
    assert "come to its end and was not closed: rolled back" in str(a_cutover(S.ROLLED_BACK))
