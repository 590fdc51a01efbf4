"""Every state of a cutover under every sight of its lanes: what is decided is always allowed."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Final

import pytest

from airflow_streaming.core.cutover.moving.deciding import next_move
from airflow_streaming.core.cutover.moving.moves import Do, Move
from airflow_streaming.core.cutover.moving.view import CutoverView
from airflow_streaming.core.cutover.table import TABLE
from airflow_streaming.core.cutover.terms import SwitchWay
from tests.unit.core.cutover.sights import SIGHTS, E, S, histories, view_of


@cache
def every(way: SwitchWay) -> list[tuple[CutoverView, str, str, Move]]:
    """Return what is decided in every state under every sight of the two lanes."""
    found = []
    for state, blue, green in itertools.product(histories(way), SIGHTS, SIGHTS):
        view = view_of(way, state, blue, green)
        found.append((view, blue, green, next_move(view)))
    return found


@pytest.mark.parametrize("way", SwitchWay)
def test_whatever_is_seen_only_steps_of_the_table_are_taken(way: SwitchWay) -> None:
    for view, blue, green, move in every(way):
        if move.do is Do.TAKE:
            assert (view.state, move.event) in TABLE, (view.state, blue, green, move)
        assert move.reason, (view.state, blue, green, move)


BLUE_IS_LEFT: Final = (
    *(S.PLANNED, S.STARTING, S.CATCHING_UP, S.SHADOWING, S.COMPARING, S.READY, S.HELD, S.WARMING),
)


@pytest.mark.parametrize("way", SwitchWay)
def test_blue_is_left_alone_until_it_is_drained(way: SwitchWay) -> None:
    for view, blue, green, move in every(way):
        if view.state in BLUE_IS_LEFT:
            assert move.lane != "orders" or move.is_passive, (view.state, blue, green, move)


@pytest.mark.parametrize("way", SwitchWay)
def test_no_driver_is_launched_where_one_may_be(way: SwitchWay) -> None:
    for view, blue, green, move in every(way):
        if move.do in (Do.LAUNCH, Do.STAND_BY):
            sight = blue if move.lane == "orders" else green
            assert sight in ("never ran", "failed", "fenced", "old fence"), (
                *(view.state, blue, green, move),
            )


def test_green_is_not_released_before_blue_has_gone() -> None:
    for view, blue, green, move in every(SwitchWay.HANDOVER):
        if move.do is Do.RELEASE and move.lane == "orders.green":
            assert view.state is S.LIVE
        if move.event is E.BLUE_DRAINED:
            assert (blue, green) == ("fenced", "standby")


def test_after_the_point_of_no_return_nothing_leads_back() -> None:
    for view, blue, green, move in every(SwitchWay.PARALLEL):
        if view.state in (S.FINALISING, S.FINALISED, S.RETIRED):
            assert move.do not in (Do.TURN_BACK, Do.UNDO), (blue, green, move)
            assert move.do is not Do.LAUNCH or move.lane == "orders.green", (blue, green, move)
