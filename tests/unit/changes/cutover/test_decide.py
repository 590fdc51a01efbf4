"""What leads a cutover on, what sends it back, and when it has taken too long."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.changes.cutover.decide import next_move
from airflow_streaming.changes.cutover.lane_moves import Do, Move
from airflow_streaming.changes.cutover.view import CutoverView
from airflow_streaming.changes.judging.green import Judgment
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.records.cutover import Result
from airflow_streaming.model.records.cutover_table import CutoverEvent, CutoverState
from tests.unit.changes.cutover.sights import E, S, histories, history_of, view_of
from tests.unit.home.make import NOON


def decide(state: CutoverState, **more: Any) -> Move:
    return next_move(view_of(SwitchMethod.PARALLEL, state, "runs", "runs", **more))


def told(event: CutoverEvent | None) -> Judgment:
    return Judgment(result=Result.PASS, reason="So it is.", event=event)


@pytest.mark.parametrize(
    ("state", "more", "event"),
    [
        (S.PLANNED, {}, E.BEGIN),
        (S.STARTING, {}, E.GREEN_STARTED),
        (S.CATCHING_UP, {"catching_up": told(E.GREEN_CAUGHT_UP)}, E.GREEN_CAUGHT_UP),
        (S.CATCHING_UP, {"catching_up": told(None)}, None),
        (S.SHADOWING, {"ready": told(E.GREEN_WELL)}, E.GREEN_WELL),
        (S.SHADOWING, {"ready": told(E.INCONCLUSIVE)}, E.INCONCLUSIVE),
        (S.SHADOWING, {"ready": told(E.GREEN_FELL_BEHIND)}, E.GREEN_FELL_BEHIND),
        (S.COMPARING, {"ready": told(E.GREEN_FELL_BEHIND)}, E.GREEN_FELL_BEHIND),
        (S.COMPARING, {"ready": told(E.GREEN_WELL)}, E.NOTHING_COMPARED),
        (S.READY, {"ready": told(E.INCONCLUSIVE)}, None),
        (S.LIVE, {"has_committed": True}, E.GREEN_COMMITTED),
        (S.LIVE, {}, None),
        (S.SOAKING, {"soak": told(E.SOAK_PASSED)}, E.SOAK_PASSED),
        (S.SOAKING, {"soak": told(E.SOAK_FAILED)}, E.SOAK_FAILED),
        (S.SOAKING, {"soak": told(None)}, None),
    ],
)
def test_what_is_shown_leads_on(
    state: CutoverState, more: dict[str, Any], event: CutoverEvent | None
) -> None:
    assert decide(state, **more).event is event


@pytest.mark.parametrize("state", [S.SHADOWING, S.COMPARING, S.READY, S.HELD])
def test_readiness_of_an_older_driver_of_green_does_not_count(state: CutoverState) -> None:
    view = view_of(SwitchMethod.PARALLEL, state, "runs", "runs", ready=None)
    older = tuple(replace(step, facts={"orders.green_epoch": "6"}) for step in view.history)

    assert next_move(replace(view, history=older)).event is E.GREEN_CHANGED


def test_a_green_that_was_started_anew_as_somebody_said_the_word_does_not_go_live() -> None:
    view = view_of(SwitchMethod.PARALLEL, S.SWITCHING, "runs", "runs")
    older = tuple(replace(step, facts={"orders.green_epoch": "6"}) for step in view.history)

    assert next_move(view).do is Do.SWITCH
    assert next_move(replace(view, history=older)).event is E.GREEN_FAILED


def dated(view: CutoverView, **ages: int) -> CutoverView:
    """Return a view whose steps into some states were taken so many minutes ago."""
    steps = [
        replace(step, at=NOON - timedelta(minutes=ages.get(step.after.value, 60)))
        for step in view.history
    ]
    return replace(view, history=tuple(steps))


@pytest.mark.parametrize(
    ("minutes", "seen_for", "given_up"),
    [
        pytest.param(14, 0, False, id="the clock of another host may be behind"),
        pytest.param(16, 0, True, id="beyond any difference of clocks"),
        pytest.param(0, 9, False, id="seen for a while"),
        pytest.param(-20, 11, True, id="seen for too long, whatever the step says"),
    ],
)
def test_a_deadline_is_not_missed_because_clocks_differ(
    minutes: int, seen_for: int, given_up: bool
) -> None:
    view = dated(view_of(SwitchMethod.HANDOVER, S.WARMING, "runs", "runs"), warming=minutes)
    view = replace(view, seen_for=timedelta(minutes=seen_for))

    assert (next_move(view).event is E.DEADLINE) is given_up


def test_a_green_that_flaps_does_not_put_off_its_deadline() -> None:
    begun = histories(SwitchMethod.PARALLEL)[S.CATCHING_UP]
    flaps = [E.GREEN_CAUGHT_UP, E.GREEN_FELL_BEHIND]
    view = view_of(SwitchMethod.PARALLEL, S.CATCHING_UP, "runs", "runs")

    def lasted(events: list[CutoverEvent], hours: int) -> timedelta:
        history = history_of(events)
        begin = len(history) * timedelta(hours=hours)
        steps = [
            replace(step, at=NOON - begin + step.number * timedelta(hours=hours))
            for step in history
        ]
        return replace(view, history=tuple(steps), seen_for=timedelta(hours=1)).lasted

    assert lasted([*begun, *flaps * 4], 3) == timedelta(hours=13)
    ready = [E.GREEN_CAUGHT_UP, E.GREEN_WELL, E.OUTPUT_SAME]
    assert lasted([*begun, *ready, E.GREEN_CHANGED], 3) == timedelta(hours=4)
    assert lasted([*begun, *ready, E.LOOK_AGAIN], 3) == timedelta(hours=1)
