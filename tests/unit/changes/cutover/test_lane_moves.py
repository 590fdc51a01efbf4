"""What is done to a lane that dies, waits or is wanted stopped, in one stream and in several."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from airflow_streaming.changes.cutover.decide import next_move
from airflow_streaming.changes.cutover.lane_moves import Do
from airflow_streaming.changes.cutover.view import CutoverView
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.records.control import Desired, DesiredState
from airflow_streaming.model.records.cutover_table import CutoverState
from tests.unit.changes.cutover.sights import E, S, histories, history_of, lane, view_of
from tests.unit.home.make import NOON, make_deployment

STOPPED: Final = Desired(
    number=1, state=DesiredState.STOPPED, by="ada", reason="The test.", at=NOON
)
BY_US: Final = replace(STOPPED, change=2)
BY_THE_LAST: Final = replace(STOPPED, change=1)


def with_second(view: CutoverView, blue: str, green: str) -> CutoverView:
    """Return a view with a second stream, which is in another situation."""
    first = view.pairs[0]
    number = first.green.newest
    pair = replace(
        first.pair,
        stream="returns",
        blue="returns",
        green="returns.green",
        shadow=replace(first.pair.shadow, stream="returns.green"),
        live=replace(first.pair.live, stream="returns.green"),
    )
    second = replace(
        first,
        pair=pair,
        blue=lane("returns", blue, 1),
        green=lane("returns.green", green, number),
    )
    return replace(view, pairs=(*view.pairs, second))


@pytest.mark.parametrize("green", ["unseen", "stops", "runs"])
@pytest.mark.parametrize("way", SwitchMethod)
def test_a_blue_that_dies_while_it_is_aborted_is_started(way: SwitchMethod, green: str) -> None:
    view = view_of(way, S.ABORTING, "fenced", green)
    early = history_of([*histories(way)[S.READY], E.ABORT])

    for history in (view.history, early):
        move = next_move(replace(view, history=history))
        assert (move.do, move.lane) == (Do.LAUNCH, "orders")


def test_a_blue_that_was_never_asked_to_stop_keeps_no_aborted_cutover_open() -> None:
    view = view_of(SwitchMethod.PARALLEL, S.ABORTING, "unseen", "fenced")
    green = lane("orders.green", "fenced", 1, BY_US)
    early = history_of([*histories(SwitchMethod.PARALLEL)[S.READY], E.ABORT])
    view = replace(view, history=early, pairs=(replace(view.pairs[0], green=green),))

    assert next_move(view).event is E.UNDONE


@pytest.mark.parametrize(
    ("desired", "launches"), [(BY_US, True), (BY_THE_LAST, True), (STOPPED, False)]
)
def test_what_the_cutover_itself_has_stopped_is_not_taken_for_a_persons_wish(
    desired: Desired, launches: bool
) -> None:
    view = view_of(SwitchMethod.HANDOVER, S.ABORTING, "fenced", "unseen")
    green = lane("orders.green", "unseen", 2, desired)

    move = next_move(replace(view, pairs=(replace(view.pairs[0], green=green),)))

    assert (move.do is Do.LAUNCH) is launches


@pytest.mark.parametrize("blue", ["unseen", "runs", "stops"])
def test_a_green_that_stays_and_dies_is_started_whatever_blue_does(blue: str) -> None:
    move = next_move(view_of(SwitchMethod.PARALLEL, S.FINALIZING, blue, "fenced"))

    assert (move.do, move.lane) == (Do.LAUNCH, "orders.green")


def test_a_green_that_stays_is_not_started_where_a_person_wants_it_stopped() -> None:
    view = view_of(SwitchMethod.PARALLEL, S.FINALIZING, "runs", "fenced")
    green = lane("orders.green", "fenced", 1, STOPPED)

    move = next_move(replace(view, pairs=(replace(view.pairs[0], green=green),)))

    assert (move.do, move.lane) == (Do.STOP, "orders")


@pytest.mark.parametrize("green", ["hung", "mute", "unseen"])
@pytest.mark.parametrize("state", [S.DRAINING, S.SWITCHING])
def test_consumers_do_not_wait_for_a_standby_that_does_not_answer(
    state: CutoverState, green: str
) -> None:
    move = next_move(view_of(SwitchMethod.HANDOVER, state, "runs", green))

    assert move.event is E.GREEN_FAILED


def test_blue_is_not_asked_to_stop_for_a_standby_of_which_nothing_is_heard() -> None:
    view = view_of(SwitchMethod.HANDOVER, S.WARMING, "runs", "mute")

    assert next_move(view).do is Do.WAIT
    assert next_move(view_of(SwitchMethod.HANDOVER, S.WARMING, "runs", "standby")).do is Do.WARM


@pytest.mark.parametrize(
    ("state", "seen", "others", "does", "lane_name"),
    [
        (S.WARMING, ("runs", "runs"), ("runs", "failed"), Do.STOP, "orders.green"),
        (S.DRAINING, ("stops", "standby"), ("runs", "standby"), Do.STOP, "returns"),
        (S.ABORTING, ("runs", "unseen"), ("failed", "runs"), Do.SETTLE, "returns"),
        (S.ABORTING, ("runs", "unseen"), ("runs", "runs"), Do.STOP, "returns.green"),
        (S.FINALIZING, ("unseen", "runs"), ("runs", "runs"), Do.STOP, "returns"),
        (S.ROLLED_BACK, ("released", "stops"), ("standby", "runs"), Do.RELEASE, "returns"),
    ],
)
def test_no_stream_has_to_wait_for_what_another_waits_for(
    state: CutoverState,
    seen: tuple[str, str],
    others: tuple[str, str],
    does: Do,
    lane_name: str,
) -> None:
    view = view_of(SwitchMethod.HANDOVER, state, *seen)
    if state is S.WARMING:
        shadow = replace(view.pairs[0], green=lane("orders.green", seen[1], 1))
        view = replace(view, pairs=(shadow,))

    move = next_move(with_second(view, *others))

    assert (move.do, move.lane) == (does, lane_name)


def test_a_blue_at_the_barrier_is_taken_down_where_the_stream_is_wanted_stopped() -> None:
    view = view_of(SwitchMethod.HANDOVER, S.ROLLED_BACK, "standby", "fenced")
    blue = lane("orders", "standby", 1, STOPPED)

    move = next_move(replace(view, pairs=(replace(view.pairs[0], blue=blue),)))

    assert (move.do, move.lane) == (Do.STOP, "orders")


def test_a_deployment_that_somebody_else_made_is_not_what_blue_comes_back_with() -> None:
    view = view_of(SwitchMethod.HANDOVER, S.ROLLING_BACK, "standby", "runs")
    blue = lane("orders", "standby", 2)
    ours = replace(view.pairs[0], blue=blue, comes_back=blue.situation.deployment)
    theirs = replace(ours, comes_back=make_deployment(2, checkpoint="/elsewhere"))

    assert next_move(replace(view, pairs=(theirs,))).do is Do.DEPLOY_BACK
    assert next_move(replace(view, pairs=(ours,))).do is not Do.DEPLOY_BACK


@pytest.mark.parametrize("state", [S.ROLLING_BACK, S.ROLLED_BACK])
def test_who_takes_his_wish_to_stop_back_in_a_rollback_is_heard(state: CutoverState) -> None:
    view = view_of(SwitchMethod.PARALLEL, state, "runs", "runs")
    pair = view.pairs[0]
    noted = replace(pair, blue=lane("orders", "runs", 1, BY_US))
    green = lane("orders.green", "runs", 1, STOPPED)

    assert next_move(replace(view, pairs=(noted,))).do is Do.WANT_RUNNING
    still = next_move(replace(view, pairs=(replace(noted, green=green),)))
    assert still.do is not Do.WANT_RUNNING
