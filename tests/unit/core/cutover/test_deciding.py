"""Every state of a cutover under every sight of its lanes: what is decided is always allowed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, Final

import pytest

from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.control import Circuit, CircuitState, Desired, DesiredState
from airflow_streaming.core.cutover.judging.judge import Judgement, Result
from airflow_streaming.core.cutover.moving.deciding import next_move
from airflow_streaming.core.cutover.moving.moves import Do, Move
from airflow_streaming.core.cutover.moving.view import CutoverView, LaneView, PairView
from airflow_streaming.core.cutover.orders import Barrier, OrderAct, StandbyOrder
from airflow_streaming.core.cutover.table import (
    TABLE,
    CutoverEvent,
    CutoverState,
    after,
)
from airflow_streaming.core.cutover.terms import CutoverTerms, Pair, StartWay, SwitchWay
from airflow_streaming.core.cutover.transition import Transition
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

RELEASE: Final = (StandbyOrder(epoch=7, number=1, act=OrderAct.RELEASE, at=NOON, by="kim"),)
SILENT: Final[dict[str, dict[str, Any]]] = {
    "mute": {"silent_for": timedelta(seconds=31), "cpu_in_silence": 5.0},
    "hung": {
        "silent_for": timedelta(seconds=31),
        "suspended_for": timedelta(seconds=31),
        "process": Process(state=ProcessState.SUSPENDED, detail="process 1"),
    },
}

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
def lane(name: str, sight: str, deployment: int, wish: Desired | None = None) -> LaneView:
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
        case "standby" | "released" | "hung" | "mute":
            epoch["standby"] = True
            view["barrier"] = Barrier(epoch=7, queries=("counts",), at=NOON)
            view["orders"] = RELEASE if sight == "released" else ()
            told |= SILENT.get(sight, {})
        case "unseen":
            told |= {"process": UNSEEN, "silent_for": timedelta(hours=2)}
    newest = make_deployment(deployment, stream=name) if sight != "no deployment" else None
    seen = Observation(epoch=make_epoch(7, **epoch), now=NOON, **told)
    return LaneView(
        lane=name,
        situation=Situation(
            desired=wish.state if wish is not None else DesiredState.RUNNING,
            now=NOON,
            rules=HealthRules(),
            policy=RestartPolicy(),
            deployment=newest,
            seen=None if sight == "never ran" else seen,
            **situation,
        ),
        change=2,
        wish=wish,
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
            assert move.do not in (Do.TURN_BACK, Do.UNDO), (blue, green, move)
            assert move.do is not Do.LAUNCH or move.lane == "orders.green", (blue, green, move)


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
@pytest.mark.parametrize("way", SwitchWay)
def test_a_blue_that_dies_while_it_is_aborted_is_started(way: SwitchWay, green: str) -> None:
    view = view_of(way, S.ABORTING, "fenced", green)
    early = history_of([*histories(way)[S.READY], E.ABORT])

    for history in (view.history, early):
        move = next_move(replace(view, history=history))
        assert (move.do, move.lane) == (Do.LAUNCH, "orders")


def test_a_blue_that_was_never_asked_to_stop_keeps_no_aborted_cutover_open() -> None:
    view = view_of(SwitchWay.PARALLEL, S.ABORTING, "unseen", "fenced")
    green = lane("orders.green", "fenced", 1, BY_US)
    early = history_of([*histories(SwitchWay.PARALLEL)[S.READY], E.ABORT])
    view = replace(view, history=early, pairs=(replace(view.pairs[0], green=green),))

    assert next_move(view).event is E.UNDONE


@pytest.mark.parametrize(
    ("wish", "launches"), [(BY_US, True), (BY_THE_LAST, True), (STOPPED, False)]
)
def test_what_the_cutover_itself_has_stopped_is_not_taken_for_a_persons_wish(
    wish: Desired, launches: bool
) -> None:
    view = view_of(SwitchWay.HANDOVER, S.ABORTING, "fenced", "unseen")
    green = lane("orders.green", "unseen", 2, wish)

    move = next_move(replace(view, pairs=(replace(view.pairs[0], green=green),)))

    assert (move.do is Do.LAUNCH) is launches


@pytest.mark.parametrize("blue", ["unseen", "runs", "stops"])
def test_a_green_that_stays_and_dies_is_started_whatever_blue_does(blue: str) -> None:
    move = next_move(view_of(SwitchWay.PARALLEL, S.FINALISING, blue, "fenced"))

    assert (move.do, move.lane) == (Do.LAUNCH, "orders.green")


def test_a_green_that_stays_is_not_started_where_a_person_wants_it_stopped() -> None:
    view = view_of(SwitchWay.PARALLEL, S.FINALISING, "runs", "fenced")
    green = lane("orders.green", "fenced", 1, STOPPED)

    move = next_move(replace(view, pairs=(replace(view.pairs[0], green=green),)))

    assert (move.do, move.lane) == (Do.STOP, "orders")


@pytest.mark.parametrize("green", ["hung", "mute", "unseen"])
@pytest.mark.parametrize("state", [S.DRAINING, S.SWITCHING])
def test_consumers_do_not_wait_for_a_standby_that_does_not_answer(
    state: CutoverState, green: str
) -> None:
    move = next_move(view_of(SwitchWay.HANDOVER, state, "runs", green))

    assert move.event is E.GREEN_FAILED


def test_blue_is_not_asked_to_stop_for_a_standby_of_which_nothing_is_heard() -> None:
    view = view_of(SwitchWay.HANDOVER, S.WARMING, "runs", "mute")

    assert next_move(view).do is Do.WAIT
    assert next_move(view_of(SwitchWay.HANDOVER, S.WARMING, "runs", "standby")).do is Do.WARM


@pytest.mark.parametrize(
    ("state", "seen", "others", "does", "lane_name"),
    [
        (S.WARMING, ("runs", "runs"), ("runs", "failed"), Do.STOP, "orders.green"),
        (S.DRAINING, ("stops", "standby"), ("runs", "standby"), Do.STOP, "returns"),
        (S.ABORTING, ("runs", "unseen"), ("failed", "runs"), Do.SETTLE, "returns"),
        (S.ABORTING, ("runs", "unseen"), ("runs", "runs"), Do.STOP, "returns.green"),
        (S.FINALISING, ("unseen", "runs"), ("runs", "runs"), Do.STOP, "returns"),
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
    view = view_of(SwitchWay.HANDOVER, state, *seen)
    if state is S.WARMING:
        shadow = replace(view.pairs[0], green=lane("orders.green", seen[1], 1))
        view = replace(view, pairs=(shadow,))

    move = next_move(with_second(view, *others))

    assert (move.do, move.lane) == (does, lane_name)


def test_a_blue_at_the_barrier_is_taken_down_where_the_stream_is_wanted_stopped() -> None:
    view = view_of(SwitchWay.HANDOVER, S.ROLLED_BACK, "standby", "fenced")
    blue = lane("orders", "standby", 1, STOPPED)

    move = next_move(replace(view, pairs=(replace(view.pairs[0], blue=blue),)))

    assert (move.do, move.lane) == (Do.STOP, "orders")


def test_a_deployment_that_somebody_else_made_is_not_what_blue_comes_back_with() -> None:
    view = view_of(SwitchWay.HANDOVER, S.ROLLING_BACK, "standby", "runs")
    blue = lane("orders", "standby", 2)
    ours = replace(view.pairs[0], blue=blue, comes_back=blue.situation.deployment)
    theirs = replace(ours, comes_back=make_deployment(2, checkpoint="/elsewhere"))

    assert next_move(replace(view, pairs=(theirs,))).do is Do.DEPLOY_BACK
    assert next_move(replace(view, pairs=(ours,))).do is not Do.DEPLOY_BACK


@pytest.mark.parametrize("state", [S.ROLLING_BACK, S.ROLLED_BACK])
def test_who_takes_his_wish_to_stop_back_in_a_rollback_is_heard(state: CutoverState) -> None:
    view = view_of(SwitchWay.PARALLEL, state, "runs", "runs")
    pair = view.pairs[0]
    noted = replace(pair, blue=lane("orders", "runs", 1, BY_US))
    green = lane("orders.green", "runs", 1, STOPPED)

    assert next_move(replace(view, pairs=(noted,))).do is Do.WANT_RUNNING
    still = next_move(replace(view, pairs=(replace(noted, green=green),)))
    assert still.do is not Do.WANT_RUNNING


def test_a_green_that_was_started_anew_as_somebody_said_the_word_does_not_go_live() -> None:
    view = view_of(SwitchWay.PARALLEL, S.SWITCHING, "runs", "runs")
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
    view = dated(view_of(SwitchWay.HANDOVER, S.WARMING, "runs", "runs"), warming=minutes)
    view = replace(view, seen_for=timedelta(minutes=seen_for))

    assert (next_move(view).event is E.DEADLINE) is given_up


def test_a_green_that_flaps_does_not_put_off_its_deadline() -> None:
    begun = histories(SwitchWay.PARALLEL)[S.CATCHING_UP]
    flaps = [E.GREEN_CAUGHT_UP, E.GREEN_FELL_BEHIND]
    view = view_of(SwitchWay.PARALLEL, S.CATCHING_UP, "runs", "runs")

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
