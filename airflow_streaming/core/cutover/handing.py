"""
The moves of a hand-over on one sink, and of every switch.

Green's next driver comes to the barrier and near blue's position, blue is drained, and then green
takes over. Blue is not touched while no driver waits at the barrier.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.core.cutover.caring import bring_down, care_for
from airflow_streaming.core.cutover.giving_up import given_up
from airflow_streaming.core.cutover.moves import Do, Move, take
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState
from airflow_streaming.core.cutover.view import CutoverView, PairView
from airflow_streaming.core.cutover.watching import is_up

S, E = CutoverState, CutoverEvent


def warming(view: CutoverView) -> Move:
    """Return the next move towards a driver that waits at the barrier."""
    if (move := given_up(view)) is not None:
        return move
    for index, pair in enumerate(view.pairs):
        if (move := _warm(view, pair)) is not None:
            return replace(move, pair=index)
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
    return None


def draining(view: CutoverView) -> Move:
    """Return the next move towards a blue that has ended at a batch boundary."""
    if (move := given_up(view) or _standing(view)) is not None:
        return move
    for index, pair in enumerate(view.pairs):
        down = bring_down(pair.blue, view.step, _handing(view), in_haste=True)
        if down is not None:
            return replace(down, pair=index)
    return take(E.BLUE_DRAINED, "Blue has ended at a batch boundary, and nobody can start it.")


def switching(view: CutoverView) -> Move:
    """Return the move that makes green live."""
    if (move := given_up(view)) is not None:
        return move
    if (move := _standing(view) if view.is_handover else is_up(view)) is not None:
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
        if care_for(green).failed:
            return take(E.GREEN_FAILED, care_for(green).failed)
    return None


def _handing(view: CutoverView) -> str:
    return f"Change {view.change.number} hands the output over."
