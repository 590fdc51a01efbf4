"""
Decide the next move of a cutover from its view.

With parallel outputs blue runs, or is started, and pointers move back at once. On one sink the
rollback is the handover in reverse: blue's next driver waits at the barrier before green is
drained.

Every choice is a step that only one task can take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from airflow_streaming.changes.cutover.lane_moves import (
    Do,
    Move,
    bring_down,
    care_for,
    first_of,
    of_pair,
    take,
)
from airflow_streaming.changes.cutover.moves import (
    aborting,
    changed_mind,
    closing,
    draining,
    finalizing,
    given_up,
    is_stop_wanted,
    judged_green,
    live,
    next_comparison,
    rolled_back,
    soaking,
    switching,
    warming,
)
from airflow_streaming.changes.cutover.view import CutoverView, PairView, of_stream
from airflow_streaming.model.records.cutover_table import CutoverEvent, CutoverState
from airflow_streaming.model.records.epoch import LaunchCause

S, E = CutoverState, CutoverEvent


def turning_back(view: CutoverView) -> Move:
    """Return the next move towards blue."""
    pairs = list(enumerate(view.pairs))
    # First where the wish counts from now on: in the lane that is going to be live.
    if (word := first_of(of_pair(_word(view, pair), index) for index, pair in pairs)) is not None:
        return word
    towards = _towards_barrier if view.is_handover else _towards_running
    if (move := first_of(of_pair(towards(view, pair), index) for index, pair in pairs)) is not None:
        return move
    reason = view.history[-1].reason
    if view.is_handover:
        downs = (bring_down(pair.green, view.step, reason, in_haste=True) for _, pair in pairs)
        down = first_of(of_pair(move, index) for index, move in enumerate(downs))
        if down is not None:
            return down
    return Move(do=Do.TURN_BACK, reason=reason)


def _word(view: CutoverView, pair: PairView) -> Move | None:
    if is_stop_wanted(view) and not pair.blue.is_wanted_stopped:
        reason = 'Desired state is "stopped".'
        return Move(do=Do.WANT_STOPPED, reason=reason, lane=pair.blue.lane)
    return changed_mind(view, pair)


def _towards_running(view: CutoverView, pair: PairView) -> Move | None:
    if is_stop_wanted(view):
        return None
    care = care_for(pair.blue, LaunchCause.ROLLBACK)
    # Lead consumers back even if blue cannot be started: green is not better.
    if care.move is not None and not care.move.is_passive:
        return care.move
    return None


def _towards_barrier(view: CutoverView, pair: PairView) -> Move | None:
    blue = pair.blue
    if pair.comes_back is None or blue.situation.deployment != pair.comes_back:
        # Another task's deployment has its own checkpoint, which was not brought to this place.
        return Move(do=Do.DEPLOY_BACK, reason="Blue resumes in its output.", lane=blue.lane)
    care = care_for(blue, LaunchCause.ROLLBACK)
    if care.failed:
        return Move(
            do=Do.ASK,
            reason=f"Blue cannot be started; green continues if it can: {care.failed}",
        )
    if care.move is not None and care.move.do is Do.LAUNCH:
        return replace(care.move, do=Do.STAND_BY)
    if care.move is not None:
        return care.move
    if not blue.is_standby_of(view.step) or blue.barrier is None:
        return Move(
            do=Do.WAIT, reason=f"Waiting for the next driver of {blue.lane} to reach the barrier."
        )
    return None


def next_move(view: CutoverView) -> Move:
    """Return the next move of a cutover."""
    if view.is_closed:
        return Move(do=Do.NOTHING, reason="The change is closed.")
    return _BY_STATE[view.state](view)


def _planned(view: CutoverView) -> Move:
    taken = [lane.taken for pair in view.pairs for lane in (pair.blue, pair.green) if lane.taken]
    if taken:
        return take(E.ABORT, taken[0])
    lanes = [lane for pair in view.pairs for lane in (pair.blue, pair.green)]
    if any(lane.change is None for lane in lanes):
        return Move(do=Do.INVITE, reason="Reserving the lanes so that no other task changes them.")
    return given_up(view) or take(E.BEGIN, view.change.reason)


def _starting(view: CutoverView) -> Move:
    if (move := given_up(view)) is not None:
        return move
    for index, pair in enumerate(view.pairs):
        if pair.green.newest < pair.pair.shadow.number:
            return _move(Do.START, index, f"{pair.pair.green} is prepared beside the live lane.")
    if (move := _tended(view)) is not None:
        return move
    waits = [pair for pair in view.pairs if not _is_born(pair)]
    if waits:
        return Move(do=Do.WAIT, reason=f"The driver of {waits[0].pair.green} is being started.")
    return take(E.GREEN_STARTED, "Green runs beside blue.", _epochs(view))


def _catching_up(view: CutoverView) -> Move:
    if (move := given_up(view) or _tended(view)) is not None:
        return move
    facts: dict[str, str] = {}
    for pair in view.pairs:
        told = pair.catching_up
        if told is None or told.event is not E.GREEN_CAUGHT_UP:
            reason = told.reason if told else "The figures are not known yet."
            return Move(do=Do.WAIT, reason=f"{pair.pair.green}: {reason}")
        facts |= of_stream(pair.pair.stream, told.figures)
    return take(E.GREEN_CAUGHT_UP, _reasons(view), facts)


def _shadowing(view: CutoverView) -> Move:
    if (move := given_up(view) or judged_green(view) or _tended(view)) is not None:
        return move
    facts: dict[str, str] = {}
    for pair in view.pairs:
        told = pair.ready
        if told is None or told.event is not E.GREEN_WELL:
            reason = told.reason if told else "The figures are not known yet."
            return Move(do=Do.WAIT, reason=f"{pair.pair.green}: {reason}")
        facts |= of_stream(f"{pair.pair.stream}.ready", told.figures)
    return take(E.GREEN_WELL, _reasons(view), facts)


def _comparing(view: CutoverView) -> Move:
    if (move := given_up(view) or judged_green(view) or _tended(view)) is not None:
        return move
    return next_comparison(view)


def _ready(view: CutoverView) -> Move:
    if (move := given_up(view) or judged_green(view) or _tended(view)) is not None:
        return move
    if view.terms.promotes_by_itself:
        event = E.HAND_OVER if view.is_handover else E.PROMOTE
        return take(event, "Green is ready, and the terms promote it automatically.")
    return Move(
        do=Do.ASK,
        reason="Green is ready and waits for an approval. To make it live: airflow-streaming cutover "
        f"promote {view.change.stream} --reason TEXT",
    )


def _held(view: CutoverView) -> Move:
    if (move := given_up(view) or judged_green(view) or _tended(view)) is not None:
        return move
    return Move(
        do=Do.ASK,
        reason=f"{view.history[-1].reason} An operator must decide: airflow-streaming cutover look-again, "
        f"promote or abort {view.change.stream} --reason TEXT",
    )


def _tended(view: CutoverView) -> Move | None:
    """Return what green needs in order to run on beside blue."""
    for index, pair in enumerate(view.pairs):
        care = care_for(pair.green)
        if care.failed:
            return take(E.GREEN_FAILED, f"{pair.pair.green}: {care.failed}")
        if care.move is not None:
            return replace(care.move, pair=index)
    return None


def _is_born(pair: PairView) -> bool:
    seen, epoch = pair.green.situation.seen, pair.green.epoch
    if seen is None or epoch is None or not pair.green.is_ours(epoch):
        return False
    return pair.green.is_running and (seen.launch is not None or seen.status is not None)


def _epochs(view: CutoverView) -> Mapping[str, str]:
    facts: dict[str, str] = {}
    for pair in view.pairs:
        facts |= of_stream(pair.pair.stream, {"started_epoch": str(pair.green_epoch)})
    return facts


def _reasons(view: CutoverView) -> str:
    return " ".join(_told(view))


def _told(view: CutoverView) -> Iterator[str]:
    for pair in view.pairs:
        told = pair.catching_up or pair.ready
        if told is not None:
            yield told.reason if len(view.pairs) == 1 else f"{pair.pair.green}: {told.reason}"


def _move(do: Do, index: int, reason: str) -> Move:
    return Move(do=do, reason=reason, pair=index)


_BY_STATE: Final[Mapping[CutoverState, Callable[[CutoverView], Move]]] = MappingProxyType(
    {
        S.PLANNED: _planned,
        S.STARTING: _starting,
        S.CATCHING_UP: _catching_up,
        S.SHADOWING: _shadowing,
        S.COMPARING: _comparing,
        S.READY: _ready,
        S.HELD: _held,
        S.WARMING: warming,
        S.DRAINING: draining,
        S.SWITCHING: switching,
        S.LIVE: live,
        S.SOAKING: soaking,
        S.FINALIZING: finalizing,
        S.FINALIZED: closing,
        S.RETIRED: closing,
        S.ABORTING: aborting,
        S.ABORTED: closing,
        S.ROLLING_BACK: turning_back,
        S.ROLLED_BACK: rolled_back,
    }
)
