"""
Turning back after the switch: blue comes back, and consumers with it.

With parallel outputs blue runs, or is started, and what consumers follow moves back at once. On one
sink it is the hand-over in reverse: blue's next driver waits at the barrier before green is drained.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.core.cutover.moving.caring import bring_down, care_for
from airflow_streaming.core.cutover.moving.giving_up import changed_mind, is_stop_wanted
from airflow_streaming.core.cutover.moving.moves import Do, Move, first_of, of_pair
from airflow_streaming.core.cutover.moving.view import CutoverView, PairView
from airflow_streaming.core.epoch import LaunchCause


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
        reason = "The stream is wanted stopped."
        return Move(do=Do.WANT_STOPPED, reason=reason, lane=pair.blue.lane)
    return changed_mind(view, pair)


def _towards_running(view: CutoverView, pair: PairView) -> Move | None:
    if is_stop_wanted(view):
        return None
    care = care_for(pair.blue, LaunchCause.ROLLBACK)
    # Where blue cannot be started consumers are led back to it all the same: green is no better.
    if care.move is not None and not care.move.is_passive:
        return care.move
    return None


def _towards_barrier(view: CutoverView, pair: PairView) -> Move | None:
    blue = pair.blue
    if pair.comes_back is None or blue.situation.deployment != pair.comes_back:
        # Somebody else's deployment has its own checkpoint, which was not brought to this place.
        return Move(do=Do.DEPLOY_BACK, reason="Blue is to go on in its output.", lane=blue.lane)
    care = care_for(blue, LaunchCause.ROLLBACK)
    if care.failed:
        return Move(
            do=Do.ASK,
            reason=f"Blue cannot be started, and green goes on meanwhile if it can: {care.failed}",
        )
    if care.move is not None and care.move.do is Do.LAUNCH:
        return replace(care.move, do=Do.STAND_BY)
    if care.move is not None:
        return care.move
    if not blue.is_standby_of(view.step) or blue.barrier is None:
        return Move(do=Do.WAIT, reason=f"The next driver of {blue.lane} comes to the barrier.")
    return None
