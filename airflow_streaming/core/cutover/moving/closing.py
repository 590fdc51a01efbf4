"""Ways down: the moves with which a cutover ends, forwards or backwards, and closes."""

from __future__ import annotations

from airflow_streaming.core.cutover.moving.caring import bring_down, care_for
from airflow_streaming.core.cutover.moving.giving_up import changed_mind, is_stop_wanted
from airflow_streaming.core.cutover.moving.moves import Do, Move, first_of, of_pair, take
from airflow_streaming.core.cutover.moving.view import CutoverView, LaneView, PairView
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState
from airflow_streaming.core.epoch import LaunchCause

S, E = CutoverState, CutoverEvent


def finalising(view: CutoverView) -> Move:
    """Return the next move after the point of no return."""
    pairs = list(enumerate(view.pairs))
    moves = [of_pair(_stays_up(pair), index) for index, pair in pairs]
    moves += [of_pair(_leaves(view, pair), index) for index, pair in pairs]
    return first_of(moves) or take(
        E.BLUE_STOPPED, "Blue is stopped; its checkpoint and output are kept."
    )


def aborting(view: CutoverView) -> Move:
    """Return the next move towards a stream as it was before."""
    reason, pairs = view.history[-1].reason, list(enumerate(view.pairs))
    moves: list[Move | None] = []
    if not is_stop_wanted(view):
        moves += [of_pair(_blue_back(view, pair), index) for index, pair in pairs]
    if view.was_in(S.STARTING):
        moves += [of_pair(_green_away(view, pair), index) for index, pair in pairs]
    if (move := first_of(moves)) is not None:
        return move
    if view.was_in(S.SWITCHING):
        return Move(do=Do.UNDO, reason=reason)
    return take(E.UNDONE, reason)


def rolled_back(view: CutoverView) -> Move:
    """Return the next move once consumers follow blue again."""
    reason, pairs = view.history[-1].reason, list(enumerate(view.pairs))
    moves = [of_pair(_goes_on(view, pair), index) for index, pair in pairs]
    moves += [
        of_pair(_down_for_good(pair.green, view.step, reason), index) for index, pair in pairs
    ]
    return first_of(moves) or closing(view)


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


def _stays_up(pair: PairView) -> Move | None:
    """Return what a green needs that is live for good; its keep-alive task only looks on."""
    move = None if pair.green.is_stopped_by_person else care_for(pair.green).move
    return None if move is None or move.is_passive else move


def _leaves(view: CutoverView, pair: PairView) -> Move | None:
    # A blue that somebody has removed is as stopped as can be.
    if pair.blue.situation.seen is None:
        return None
    return _down_for_good(pair.blue, view.step, f"Change {view.change.number}: green stays.")


def _blue_back(view: CutoverView, pair: PairView) -> Move | None:
    """Return what blue needs: its keep-alive task only looks on, so nobody else gives it."""
    care = care_for(pair.blue, LaunchCause.ROLLBACK)
    if care.move is not None and not care.move.is_passive:
        return care.move
    if not view.was_in(S.DRAINING, S.SWITCHING):
        # It was never asked to stop: what cannot be helped is told by whoever keeps it alive.
        return None
    if care.move is None and pair.blue.situation.stop is not None and not care.failed:
        return Move(do=Do.WAIT, reason=f"{pair.blue.lane} comes to its end and is started.")
    return care.move


def _green_away(view: CutoverView, pair: PairView) -> Move | None:
    if pair.green.newest < pair.pair.shadow.number:
        return Move(do=Do.RESERVE, reason="Nobody who is late may make green's deployment.")
    return _down_for_good(pair.green, view.step, view.history[-1].reason)


def _goes_on(view: CutoverView, pair: PairView) -> Move | None:
    """Return what becomes of a blue that waits at the barrier."""
    blue = pair.blue
    if (word := changed_mind(view, pair)) is not None:
        return word
    is_waiting = blue.epoch is not None and blue.epoch.standby and not blue.is_released
    if is_waiting and blue.is_wanted_stopped:
        return bring_down(blue, view.step, "The stream is wanted stopped.")
    if is_waiting and blue.is_running and blue.barrier is not None:
        return Move(do=Do.RELEASE, reason="Blue is live again.", lane=blue.lane)
    return None
