"""Every state of a cutover under every sight of its lanes: what is decided is always allowed."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Final

import pytest

from airflow_streaming.changes.cutover.decide import next_move
from airflow_streaming.changes.cutover.lane_moves import Do, Move
from airflow_streaming.changes.cutover.view import CutoverView
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.records.cutover_table import CUTOVER
from tests.unit.changes.cutover.sights import SIGHTS, E, S, histories, view_of


@cache
def every(way: SwitchMethod) -> list[tuple[CutoverView, str, str, Move]]:
    """Return what is decided in every state under every sight of the two lanes."""
    found = []
    for state, blue, green in itertools.product(histories(way), SIGHTS, SIGHTS):
        view = view_of(way, state, blue, green)
        found.append((view, blue, green, next_move(view)))
    return found


@pytest.mark.parametrize("way", SwitchMethod)
def test_whatever_is_seen_only_steps_of_the_table_are_taken(way: SwitchMethod) -> None:
    for view, blue, green, move in every(way):
        if move.do is Do.TAKE:
            assert CUTOVER.allows(view.state, move.event), (view.state, blue, green, move)
        assert move.reason, (view.state, blue, green, move)


BLUE_IS_LEFT: Final = (
    *(S.PLANNED, S.STARTING, S.CATCHING_UP, S.SHADOWING, S.COMPARING, S.READY, S.HELD, S.WARMING),
)


@pytest.mark.parametrize("way", SwitchMethod)
def test_blue_is_left_alone_until_it_is_drained(way: SwitchMethod) -> None:
    for view, blue, green, move in every(way):
        if view.state in BLUE_IS_LEFT:
            assert move.lane != "orders" or move.is_passive, (view.state, blue, green, move)


@pytest.mark.parametrize("way", SwitchMethod)
def test_no_driver_is_launched_where_one_may_be(way: SwitchMethod) -> None:
    for view, blue, green, move in every(way):
        if move.do in (Do.LAUNCH, Do.STAND_BY):
            sight = blue if move.lane == "orders" else green
            assert sight in ("never ran", "failed", "fenced", "old fence"), (
                *(view.state, blue, green, move),
            )


def test_green_is_not_released_before_blue_has_gone() -> None:
    for view, blue, green, move in every(SwitchMethod.HANDOVER):
        if move.do is Do.RELEASE and move.lane == "orders.green":
            assert view.state is S.LIVE
        if move.event is E.BLUE_DRAINED:
            assert (blue, green) == ("fenced", "standby")


def test_after_the_point_of_no_return_nothing_leads_back() -> None:
    for view, blue, green, move in every(SwitchMethod.PARALLEL):
        if view.state in (S.FINALIZING, S.FINALIZED, S.RETIRED):
            assert move.do not in (Do.TURN_BACK, Do.UNDO), (blue, green, move)
            assert move.do is not Do.LAUNCH or move.lane == "orders.green", (blue, green, move)
