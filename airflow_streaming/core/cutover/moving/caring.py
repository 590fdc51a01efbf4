"""
Caring for one lane: keep its driver alive, or bring it down for good.

A cutover keeps a lane alive by the very rules by which keep-alive tasks do, and brings it down as
an upgrade does: asked, waited for, killed if need be, proved gone, and fenced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.cutover.moving.moves import Do, Move
from airflow_streaming.core.cutover.moving.view import LaneView
from airflow_streaming.core.epoch import LaunchCause, Outcome
from airflow_streaming.core.situation import Situation
from airflow_streaming.core.steering import Action, Step, decide
from airflow_streaming.core.verdict import VerdictState


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """
    What a lane needs in order to run.

    :param move: What is to be done; ``None`` when nothing is.
    :param failed: Why it will not run by itself; empty while it may.
    """

    move: Move | None = None
    failed: str = ""


def care_for(lane: LaneView, cause: LaunchCause = LaunchCause.CUTOVER) -> Care:
    """
    Return what a lane needs in order to run.

    :param cause: Of a launch that is no restart after a failure.
    """
    verdict = lane.verdict
    if lane.is_half_fenced:
        # Taken for an epoch whose driver is about to be started, it would keep the lane down.
        return Care(move=_move(lane, Do.FENCE, "A fence is made whole."))
    if verdict is not None and verdict.state is VerdictState.COMPLETED:
        return Care(failed=f"Its script has ended: {verdict.reason}")
    step = decide(_wanted(lane.situation, DesiredState.RUNNING))
    match step.action:
        case Action.WATCH | Action.WAIT:
            return Care()
        case Action.LAUNCH:
            return Care(move=_launch(lane, step, cause))
        case Action.PARK | Action.FINISH:
            return Care(failed=step.reason)
        case Action.BLOCKED:
            return Care(move=_move(lane, Do.ASK, step.reason))
    moves = {Action.STOP: Do.STOP, Action.KILL: Do.KILL, Action.SETTLE: Do.SETTLE}
    move = _move(lane, moves[step.action], step.reason)
    return Care(move=replace(move, verdict=step.verdict))


def bring_down(lane: LaneView, step: int, reason: str, *, in_haste: bool = False) -> Move | None:
    """
    Return the next move towards a lane without a driver, ``None`` when nobody can start one.

    :param step: Fences taken before this step do not count: somebody may have looked since.
    :param in_haste: A driver's word that its queries have ended is enough, while consumers wait;
        its process may still be going down. The fence then says nothing of that: whoever launches
        the next driver in this lane proves the one before it gone first, as ever.
    """
    if lane.is_fenced(step):
        return None
    seen = lane.situation.seen
    if seen is None or seen.epoch.cause is LaunchCause.FENCE or (in_haste and _has_drained(lane)):
        return _move(lane, Do.FENCE, reason)
    found = decide(_wanted(lane.situation, DesiredState.STOPPED))
    match found.action:
        case Action.STOP:
            return _move(lane, Do.STOP, reason)
        case Action.KILL:
            return _move(lane, Do.KILL, found.reason)
        case Action.PARK:
            return _move(lane, Do.FENCE, reason)
        case Action.BLOCKED:
            return _move(lane, Do.ASK, found.reason)
    return _move(lane, Do.WAIT, found.reason)


def _has_drained(lane: LaneView) -> bool:
    # Its queries have ended, by its own word; that its Spark still shuts down is waited for by
    # whoever starts the next driver in the same lane.
    seen = lane.situation.seen
    exit = None if seen is None else seen.exit
    # One that was cut off may be writing its last batch still, until its process is gone.
    return exit is not None and exit.outcome is Outcome.STOPPED and not exit.cut_off


def _wanted(situation: Situation, state: DesiredState) -> Situation:
    return replace(
        situation,
        desired=state,
        change=None,
        tells=False,
        rollover_after=None,
        successor_waits=False,
        watched=None,
        follows=None,
        may_stand_by=True,
    )


def _launch(lane: LaneView, step: Step, cause: LaunchCause) -> Move:
    is_restart = step.cause is LaunchCause.RESTART
    move = _move(lane, Do.LAUNCH, step.reason)
    return replace(move, cause=LaunchCause.RESTART if is_restart else cause)


def _move(lane: LaneView, do: Do, reason: str) -> Move:
    return Move(do=do, reason=reason, lane=lane.lane)
