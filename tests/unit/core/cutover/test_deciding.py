"""Every state of a cutover under every sight of its lanes: what is decided is always allowed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, Final

import pytest

from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.control import Circuit, CircuitState, DesiredState
from airflow_streaming.core.cutover.deciding import next_move
from airflow_streaming.core.cutover.judging import Judgement, Result
from airflow_streaming.core.cutover.moves import Do, Move
from airflow_streaming.core.cutover.orders import Barrier, OrderAct, StandbyOrder
from airflow_streaming.core.cutover.table import (
    TABLE,
    CutoverEvent,
    CutoverState,
    after,
)
from airflow_streaming.core.cutover.terms import CutoverTerms, Pair, StartWay, SwitchWay
from airflow_streaming.core.cutover.transition import Transition
from airflow_streaming.core.cutover.view import CutoverView, LaneView, PairView
from airflow_streaming.core.epoch import LaunchCause, Outcome
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.observation import Observation, Process, ProcessState
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.situation import Situation
from airflow_streaming.exceptions import CutoverRefused
from tests.unit.home.make import (
    NOON,
    make_death,
    make_deployment,
    make_epoch,
    make_exit,
    make_launch,
    make_status,
    make_stop,
)

S, E = CutoverState, CutoverEvent
RUNNING: Final = Process(state=ProcessState.RUNNING, detail="process 1")
GONE: Final = Process.gone("no process")
UNSEEN: Final = Process.unseen("another host")
LATE: Final = 99
"""A step after any of these histories: fences and standbys of it are of the present state."""

FORWARD: Final = (
    *(E.BEGIN, E.GREEN_STARTED, E.GREEN_CAUGHT_UP, E.GREEN_WELL, E.OUTPUT_SAME),
    *(E.HAND_OVER, E.STANDBY_READY, E.BLUE_DRAINED, E.SWITCHED, E.GREEN_COMMITTED),
    *(E.SOAK_PASSED, E.BLUE_STOPPED, E.RETAIN_OVER),
)
SIGHTS: Final = (
    *("never ran", "runs", "stops", "drained", "failed", "fenced", "old fence"),
    *("half a fence", "standby", "released", "unseen", "given up", "no deployment"),
)


@cache
def histories(way: SwitchWay) -> dict[CutoverState, list[E]]:
    """Return the events that lead to each state, the shortest way."""
    promote = [E.PROMOTE if one is E.HAND_OVER else one for one in FORWARD]
    forward = list(FORWARD) if way is SwitchWay.HANDOVER else promote
    if way is SwitchWay.PARALLEL:
        forward = [one for one in forward if one not in (E.STANDBY_READY, E.BLUE_DRAINED)]
    found: dict[CutoverState, list[E]] = {S.PLANNED: []}
    state = S.PLANNED
    for index, event in enumerate(forward):
        state = after(state, event)
        found[state] = forward[: index + 1]
    found[S.HELD] = [*found[S.SHADOWING], E.INCONCLUSIVE]
    found[S.ABORTING] = [*found[S.SWITCHING], E.ABORT]
    found[S.ABORTED] = [*found[S.ABORTING], E.UNDONE]
    found[S.ROLLING_BACK] = [*found[S.SOAKING], E.ROLL_BACK]
    found[S.ROLLED_BACK] = [*found[S.ROLLING_BACK], E.UNDONE]
    return found


def history_of(events: list[E]) -> tuple[Transition, ...]:
    steps: list[Transition] = []
    state = S.PLANNED
    for event in events:
        to = after(state, event)
        steps.append(
            Transition(
                change=4,
                number=len(steps) + 1,
                before=state,
                event=event,
                after=to,
                reason=f"So it came: {event}.",
                at=NOON,
                by="kim",
                facts={"orders.green_epoch": "7", "orders.live_epoch": "7"},
            )
        )
        state = to
    return tuple(steps)


@cache
def lane(name: str, sight: str, deployment: int) -> LaneView:
    """Return a lane as it looks in one of the situations."""
    told: dict[str, Any] = {}
    epoch: dict[str, Any] = {"deployment": deployment, "change": 2, "stream": name, "step": LATE}
    situation: dict[str, Any] = {}
    view: dict[str, Any] = {}
    told |= {"process": RUNNING, "status": make_status(7), "launch": make_launch(7)}
    match sight:
        case "stops":
            situation["stop"] = make_stop(7)
        case "drained":
            situation["stop"] = make_stop(7)
            told["exit"] = make_exit(7, outcome=Outcome.STOPPED)
        case "failed" | "given up":
            told |= {"process": GONE, "exit": make_exit(7)}
            if sight == "given up":
                situation["circuit"] = Circuit(
                    number=1, state=CircuitState.OPEN, epoch=7, by="kim", reason="Bad.", at=NOON
                )
        case "fenced" | "old fence" | "half a fence":
            epoch |= {"cause": LaunchCause.FENCE, "step": None if sight == "old fence" else LATE}
            told = {"process": GONE, "death": make_death(7)}
            situation["stop"] = make_stop(7)
            if sight == "half a fence":
                told["death"], situation["stop"] = None, None
        case "standby" | "released":
            epoch["standby"] = True
            view["barrier"] = Barrier(epoch=7, queries=("counts",), at=NOON)
            if sight == "released":
                view["orders"] = (
                    StandbyOrder(epoch=7, number=1, act=OrderAct.RELEASE, at=NOON, by="kim"),
                )
        case "unseen":
            told |= {"process": UNSEEN, "silent_for": timedelta(hours=2)}
    newest = make_deployment(deployment, stream=name) if sight != "no deployment" else None
    seen = Observation(epoch=make_epoch(7, **epoch), now=NOON, **told)
    return LaneView(
        lane=name,
        situation=Situation(
            desired=DesiredState.RUNNING,
            now=NOON,
            rules=HealthRules(),
            policy=RestartPolicy(),
            deployment=newest,
            seen=None if sight == "never ran" else seen,
            **situation,
        ),
        change=2,
        **view,
    )


@cache
def pair_of(way: SwitchWay) -> Pair:
    shadow = make_deployment(1, stream="orders.green")
    live = make_deployment(2, stream="orders.green") if way is SwitchWay.HANDOVER else shadow
    return Pair(
        stream="orders",
        blue="orders",
        green="orders.green",
        blue_deployment=1,
        shadow=shadow,
        live=live,
        start=StartWay.FRESH,
        queries=("counts",),
        stateful=("counts",),
    )


def view_of(way: SwitchWay, state: CutoverState, blue: str, green: str, **more: Any) -> CutoverView:
    pair = pair_of(way)
    number = pair.live.number if state in _WITH_LIVE else pair.shadow.number
    return CutoverView(
        change=Change(
            number=4,
            stream="orders",
            what=ChangeSort.CUTOVER,
            replaced=1,
            deployment=1,
            checkpoint="",
            by="kim",
            reason="The test.",
            at=NOON,
        ),
        terms=CutoverTerms(change=4, way=way, pairs=(pair,)),
        history=history_of(histories(way)[state]),
        pairs=(
            PairView(
                pair=pair,
                blue=lane("orders", blue, 1),
                green=lane("orders.green", green, number),
                **more,
            ),
        ),
        now=NOON,
    )


_WITH_LIVE: Final = frozenset(S) - {
    *(S.PLANNED, S.STARTING, S.CATCHING_UP, S.SHADOWING, S.COMPARING, S.READY, S.HELD),
}


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
            assert move.do not in (Do.TURN_BACK, Do.UNDO, Do.LAUNCH), (blue, green, move)


def decide(state: CutoverState, **more: Any) -> Move:
    return next_move(view_of(SwitchWay.PARALLEL, state, "runs", "runs", **more))


def told(event: CutoverEvent | None) -> Judgement:
    return Judgement(result=Result.PASS, reason="So it is.", event=event)


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
        (S.COMPARING, {"ready": told(E.GREEN_WELL)}, E.OUTPUT_SAME),
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
    view = view_of(SwitchWay.PARALLEL, state, "runs", "runs", ready=None)
    older = tuple(replace(step, facts={"orders.green_epoch": "6"}) for step in view.history)

    assert next_move(replace(view, history=older)).event is E.GREEN_CHANGED


@pytest.mark.parametrize("state", list(CutoverState))
def test_every_event_is_in_the_table_or_refused_with_what_is(state: CutoverState) -> None:
    for event in CutoverEvent:
        if (state, event) in TABLE:
            assert after(state, event) is TABLE[state, event]
        else:
            with pytest.raises(CutoverRefused, match="Allowed here: "):
                after(state, event)
