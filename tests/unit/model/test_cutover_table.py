"""The table of a cutover: what can follow on what, and what can never."""

from __future__ import annotations

import pytest

from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverEvent, CutoverState

S, E = CutoverState, CutoverEvent

UNTOUCHED = [S.PLANNED, S.STARTING, S.CATCHING_UP, S.SHADOWING, S.COMPARING, S.READY, S.HELD]
BEFORE = [*UNTOUCHED, S.WARMING, S.DRAINING, S.SWITCHING]
WITH_A_WAY_BACK = [S.LIVE, S.SOAKING]
FORWARD_ONLY = [S.FINALIZING, S.FINALIZED, S.RETIRED]
LED_TO_GREEN = [*WITH_A_WAY_BACK, *FORWARD_ONLY]


def reachable(start: CutoverState) -> set[CutoverState]:
    """Return every state that some course leads to."""
    found, open_ = {start}, [start]
    while open_:
        at = open_.pop()
        new = {to for (before, _), to in CUTOVER.rows.items() if before is at} - found
        found |= new
        open_ += new
    return found


@pytest.mark.parametrize("state", S)
def test_every_event_in_the_table_leads_where_it_says(state: CutoverState) -> None:
    listed = {event: to for (at, event), to in CUTOVER.rows.items() if at is state}

    assert {event: CUTOVER.after(state, event) for event in listed} == listed


@pytest.mark.parametrize("state", S)
def test_every_other_event_is_refused_with_what_is_allowed(state: CutoverState) -> None:
    allowed = {event for at, event in CUTOVER.rows if at is state}

    for event in set(E) - allowed:
        with pytest.raises(
            CutoverRefused, match=f"'{state}' cannot take '{event}'. Allowed here: "
        ) as e:
            CUTOVER.after(state, event)
        assert all(named in str(e.value) for named in allowed or {"nothing"}), event


def test_every_state_can_be_come_to() -> None:
    assert reachable(S.PLANNED) == set(S)


@pytest.mark.parametrize("state", [s for s in S if not s.is_end])
def test_no_state_is_a_trap(state: CutoverState) -> None:
    assert any(found.is_end for found in reachable(state))


@pytest.mark.parametrize("state", BEFORE)
@pytest.mark.parametrize("event", [E.ABORT, E.STOP_WANTED, E.SPEC_CHANGED, E.DEADLINE])
def test_before_the_switch_giving_up_leads_to_blue_and_nowhere_else(
    state: CutoverState, event: CutoverEvent
) -> None:
    assert state.can_abort
    assert reachable(CUTOVER.after(state, event)) == {S.ABORTING, S.ABORTED}


@pytest.mark.parametrize("state", WITH_A_WAY_BACK)
@pytest.mark.parametrize("event", [E.ROLL_BACK, E.GREEN_FAILED, E.SOAK_FAILED, E.STOP_WANTED])
def test_between_switch_and_end_of_the_soak_giving_up_leads_back(
    state: CutoverState, event: CutoverEvent
) -> None:
    assert state.can_roll_back
    assert reachable(CUTOVER.after(state, event)) == {S.ROLLING_BACK, S.ROLLED_BACK}


@pytest.mark.parametrize("state", FORWARD_ONLY)
def test_after_the_point_of_no_return_there_is_only_forward(state: CutoverState) -> None:
    assert not state.can_abort
    assert not state.can_roll_back
    assert reachable(state) <= set(FORWARD_ONLY)


@pytest.mark.parametrize("state", BEFORE)
def test_nothing_but_the_step_of_the_switch_makes_green_live(state: CutoverState) -> None:
    live = {event for (at, event), to in CUTOVER.rows.items() if at is state and to in LED_TO_GREEN}
    assert live == ({E.SWITCHED} if state is S.SWITCHING else set())


@pytest.mark.parametrize("state", [S.SHADOWING, S.COMPARING, S.READY, S.HELD])
def test_what_was_shown_does_not_count_for_another_driver(state: CutoverState) -> None:
    assert CUTOVER.after(state, E.GREEN_CHANGED) is S.CATCHING_UP
