"""Ways down: the moves with which a cutover ends, forwards or backwards, and closes."""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.core.cutover.caring import bring_down, care_for
from airflow_streaming.core.cutover.giving_up import is_stop_wanted
from airflow_streaming.core.cutover.moves import Do, Move, take
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState
from airflow_streaming.core.cutover.view import CutoverView, LaneView
from airflow_streaming.core.epoch import LaunchCause

S, E = CutoverState, CutoverEvent


def finalising(view: CutoverView) -> Move:
    """Return the next move after the point of no return."""
    reason = f"Change {view.change.number}: green stays."
    for index, pair in enumerate(view.pairs):
        # A blue that somebody has removed is as stopped as can be.
        is_gone = pair.blue.situation.seen is None
        move = None if is_gone else _down_for_good(pair.blue, view.step, reason)
        if move is not None:
            return replace(move, pair=index)
    return take(E.BLUE_STOPPED, "Blue is stopped, and is kept restartable for some time.")


def aborting(view: CutoverView) -> Move:
    """Return the next move towards a stream as it was before."""
    reason = view.history[-1].reason
    for index, pair in enumerate(view.pairs):
        # Keep-alive tasks only look on meanwhile, and a cutover that drained blue has to start it.
        is_ours = view.was_in(S.DRAINING, S.SWITCHING) and not is_stop_wanted(view)
        care = care_for(pair.blue, LaunchCause.ROLLBACK) if is_ours else None
        if care is not None and (move := care.move) is not None:
            return replace(move, pair=index)
        if care is not None and pair.blue.situation.stop is not None and not care.failed:
            return Move(do=Do.WAIT, reason=f"{pair.blue.lane} comes to its end and is started.")
    if view.was_in(S.STARTING):
        for index, pair in enumerate(view.pairs):
            if pair.green.newest < pair.pair.shadow.number:
                reserved = "Nobody who is late may make green's deployment."
                return Move(do=Do.RESERVE, reason=reserved, pair=index)
            if (down := _down_for_good(pair.green, view.step, reason)) is not None:
                return replace(down, pair=index)
    if view.was_in(S.SWITCHING):
        return Move(do=Do.UNDO, reason=reason)
    return take(E.UNDONE, reason)


def rolled_back(view: CutoverView) -> Move:
    """Return the next move once consumers follow blue again."""
    for index, pair in enumerate(view.pairs):
        if pair.blue.is_running and pair.blue.barrier is not None and not pair.blue.is_released:
            reason = "Blue is live again."
            return Move(do=Do.RELEASE, reason=reason, pair=index, lane=pair.blue.lane)
    for index, pair in enumerate(view.pairs):
        down = _down_for_good(pair.green, view.step, view.history[-1].reason)
        if down is not None:
            return replace(down, pair=index)
    return closing(view)


def closing(view: CutoverView) -> Move:
    """Return the move that closes the change."""
    return Move(do=Do.CLOSE, reason=view.history[-1].reason)


def _down_for_good(lane: LaneView, step: int, reason: str) -> Move | None:
    down = bring_down(lane, step, reason)
    if down is not None:
        return down
    if not lane.is_wanted_stopped:
        return Move(do=Do.WANT_STOPPED, reason=reason, lane=lane.lane)
    return None
