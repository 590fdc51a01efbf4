"""
View → move: what the next move of a cutover is.

The law of this file: whoever works on a cutover asks the same function, after every move. So a task
may die on any line and two may be at it at once: the next look finds the records and comes to the
next move. Every choice is a step that only one can take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from airflow_streaming.core.cutover.moving.caring import care_for
from airflow_streaming.core.cutover.moving.closing import aborting, closing, finalising, rolled_back
from airflow_streaming.core.cutover.moving.giving_up import given_up
from airflow_streaming.core.cutover.moving.handover import draining, switching, warming
from airflow_streaming.core.cutover.moving.judged import judged_green, next_comparison
from airflow_streaming.core.cutover.moving.moves import Do, Move, take
from airflow_streaming.core.cutover.moving.turning_back import turning_back
from airflow_streaming.core.cutover.moving.view import CutoverView, PairView, of_stream
from airflow_streaming.core.cutover.moving.watching import live, soaking
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState

S, E = CutoverState, CutoverEvent


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
        return Move(do=Do.INVITE, reason="Nobody else may change the lanes meanwhile.")
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
        return take(event, "Green is ready, and the terms ask nobody.")
    return Move(
        do=Do.ASK,
        reason="Green is ready. Somebody has to say that it becomes live: airflow-streaming "
        f"cutover promote {view.change.stream} --reason TEXT",
    )


def _held(view: CutoverView) -> Move:
    if (move := given_up(view) or judged_green(view) or _tended(view)) is not None:
        return move
    return Move(
        do=Do.ASK,
        reason=f"{view.history[-1].reason} Somebody has to say: airflow-streaming cutover "
        f"look-again, promote or abort {view.change.stream} --reason TEXT",
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
        S.FINALISING: finalising,
        S.FINALISED: closing,
        S.RETIRED: closing,
        S.ABORTING: aborting,
        S.ABORTED: closing,
        S.ROLLING_BACK: turning_back,
        S.ROLLED_BACK: rolled_back,
    }
)
