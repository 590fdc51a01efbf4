"""A cutover in each of its states, and its lanes as they may look in it."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any, Final

from airflow_streaming.changes.cutover.view import CutoverView, LaneView, PairView
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Observation, Process, ProcessState
from airflow_streaming.model.records.control import (
    Change,
    ChangeKind,
    Circuit,
    CircuitState,
    Desired,
    DesiredState,
)
from airflow_streaming.model.records.cutover import CutoverTerms, Pair
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from airflow_streaming.model.records.epoch import (
    Barrier,
    LaunchCause,
    OrderAct,
    Outcome,
    StandbyOrder,
)
from airflow_streaming.supervision.decide import ReconcileInput
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
def histories(way: SwitchMethod) -> dict[CutoverState, list[CutoverEvent]]:
    """Return the events that lead to each state, the shortest way."""
    promote = [E.PROMOTE if one is E.HAND_OVER else one for one in FORWARD]
    forward = list(FORWARD) if way is SwitchMethod.HANDOVER else promote
    if way is SwitchMethod.PARALLEL:
        forward = [one for one in forward if one not in (E.STANDBY_READY, E.BLUE_DRAINED)]
    found: dict[CutoverState, list[CutoverEvent]] = {S.PLANNED: []}
    state = S.PLANNED
    for index, event in enumerate(forward):
        state = CUTOVER.after(state, event)
        found[state] = forward[: index + 1]
    found[S.HELD] = [*found[S.SHADOWING], E.INCONCLUSIVE]
    found[S.ABORTING] = [*found[S.SWITCHING], E.ABORT]
    found[S.ABORTED] = [*found[S.ABORTING], E.UNDONE]
    found[S.ROLLING_BACK] = [*found[S.SOAKING], E.ROLL_BACK]
    found[S.ROLLED_BACK] = [*found[S.ROLLING_BACK], E.UNDONE]
    return found


def history_of(events: list[CutoverEvent]) -> tuple[CutoverTransition, ...]:
    steps: list[CutoverTransition] = []
    state = S.PLANNED
    for event in events:
        to = CUTOVER.after(state, event)
        steps.append(
            CutoverTransition(
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
def lane(name: str, sight: str, deployment: int, desired: Desired | None = None) -> LaneView:
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
        situation=ReconcileInput(
            desired=desired.state if desired is not None else DesiredState.RUNNING,
            now=NOON,
            rules=HealthRules(),
            policy=RestartPolicy(),
            deployment=newest,
            seen=None if sight == "never ran" else seen,
            **situation,
        ),
        change=2,
        desired=desired,
        **view,
    )


@cache
def pair_of(way: SwitchMethod) -> Pair:
    shadow = make_deployment(1, stream="orders.green")
    live = make_deployment(2, stream="orders.green") if way is SwitchMethod.HANDOVER else shadow
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


def view_of(
    way: SwitchMethod, state: CutoverState, blue: str, green: str, **more: Any
) -> CutoverView:
    pair = pair_of(way)
    number = pair.live.number if state in _WITH_LIVE else pair.shadow.number
    return CutoverView(
        change=Change(
            number=4,
            stream="orders",
            what=ChangeKind.CUTOVER,
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
