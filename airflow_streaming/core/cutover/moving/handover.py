"""
The moves of a hand-over on one sink, and of every switch.

Green's next driver comes to the barrier and near blue's position, blue is drained, and then green
takes over. Blue is not touched while no driver waits at the barrier.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from airflow_streaming.core.cutover.moving.caring import bring_down, care_for
from airflow_streaming.core.cutover.moving.giving_up import given_up
from airflow_streaming.core.cutover.moving.judged import changed_driver
from airflow_streaming.core.cutover.moving.moves import Do, Move, first_of, of_pair, take
from airflow_streaming.core.cutover.moving.view import CutoverView, LaneView, PairView
from airflow_streaming.core.cutover.moving.watching import is_up
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState

S, E = CutoverState, CutoverEvent
MUTE: Final = timedelta(seconds=30)
"""A driver at the barrier beats every few seconds; blue is not stopped for one that does not."""


def warming(view: CutoverView) -> Move:
    """Return the next move towards a driver that waits at the barrier."""
    if (move := given_up(view)) is not None:
        return move
    moves = (of_pair(_warm(view, pair), index) for index, pair in enumerate(view.pairs))
    if (move := first_of(moves)) is not None:
        return move
    return Move(do=Do.WARM, reason="Green's next driver is brought near blue's position.")


def _warm(view: CutoverView, pair: PairView) -> Move | None:
    green = pair.green
    if green.newest < pair.pair.live.number:
        down = bring_down(green, view.step, _handing(view))
        return down or Move(do=Do.DEPLOY_LIVE, reason="Green is to go on in blue's output.")
    care = care_for(green)
    if care.failed:
        return take(E.GREEN_FAILED, care.failed)
    if care.move is not None and care.move.do is Do.LAUNCH:
        return replace(care.move, do=Do.STAND_BY)
    if care.move is not None:
        return care.move
    if not green.is_standby_of(view.step) or green.barrier is None:
        return Move(do=Do.WAIT, reason=f"The next driver of {green.lane} comes to the barrier.")
    if _is_mute(green):
        return Move(do=Do.WAIT, reason=f"Nothing is heard of {green.lane} at the barrier.")
    return None


def draining(view: CutoverView) -> Move:
    """Return the next move towards a blue that has ended at a batch boundary."""
    if (move := given_up(view) or _standing(view)) is not None:
        return move
    downs = (
        of_pair(bring_down(pair.blue, view.step, _handing(view), in_haste=True), index)
        for index, pair in enumerate(view.pairs)
    )
    if (move := first_of(downs)) is not None:
        return move
    return take(E.BLUE_DRAINED, "Blue has ended at a batch boundary, and nobody can start it.")


def switching(view: CutoverView) -> Move:
    """Return the move that makes green live."""
    if (move := given_up(view)) is not None:
        return move
    if (move := _standing(view) if view.is_handover else _as_judged(view)) is not None:
        return move
    return Move(do=Do.SWITCH, reason=view.history[-1].reason)


def _standing(view: CutoverView) -> Move | None:
    """Return what speaks against a standby that waits; blue is not touched without one."""
    since = view.step_into(S.WARMING)
    for pair in view.pairs:
        green = pair.green
        is_there = green.is_running and green.is_standby_of(since) and green.barrier is not None
        if not is_there or green.is_released:
            return take(E.GREEN_FAILED, f"The driver of {green.lane} at the barrier is gone.")
        care = care_for(green)
        if care.failed or care.move is not None:
            # Whatever it needs, the output has nobody who writes it meanwhile.
            why = care.failed or (care.move.reason if care.move else "")
            return take(E.GREEN_FAILED, f"{green.lane} does not stand by: {why}")
        if _is_mute(green):
            return take(E.GREEN_FAILED, f"Nothing is heard of {green.lane} at the barrier.")
    return None


def _as_judged(view: CutoverView) -> Move | None:
    """Return what speaks against a green that goes live as it is."""
    for pair in view.pairs:
        if why := changed_driver(view, pair):
            # It ended just when somebody said that it becomes live.
            return take(E.GREEN_FAILED, f"{pair.pair.green}: {why}")
    return is_up(view)


def _is_mute(lane: LaneView) -> bool:
    seen = lane.situation.seen
    return seen is not None and seen.silent_for >= MUTE


def _handing(view: CutoverView) -> str:
    return f"Change {view.change.number} hands the output over."
