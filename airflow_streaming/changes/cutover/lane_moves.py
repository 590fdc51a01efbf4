"""
A lane of a cutover: kept alive, or brought down.

A cutover keeps a lane alive by the rules of keep-alive tasks; ``lane_ground`` has the way down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from airflow_streaming.changes import engine
from airflow_streaming.changes.cutover.view import LaneView
from airflow_streaming.changes.lane_ground import step_down, under_change
from airflow_streaming.model.health_rules import Severity
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.cutover_table import CutoverEvent
from airflow_streaming.model.records.epoch import LaunchCause, Outcome
from airflow_streaming.supervision.decide import Action, ReconcileInput, Step, decide


class Do(StrEnum):
    """Kinds of moves."""

    TAKE = "take"
    """Take the step of an event."""
    INVITE = "invite"
    """Record the change in every lane that the cutover touches."""
    START = "start"
    """Make green's first checkpoint, and its deployment."""
    RESERVE = "reserve"
    """Make green's deployment only so that no late task can."""
    DEPLOY_LIVE = "deploy_live"
    """Handover: the deployment with which green continues in blue's output."""
    DEPLOY_BACK = "deploy_back"
    """Handover: the deployment with which blue continues in its output again."""
    LAUNCH = "launch"
    STAND_BY = "stand_by"
    """Launch a driver that waits at the barrier."""
    STOP = "stop"
    KILL = "kill"
    SETTLE = "settle"
    """Record the decision on a failed epoch."""
    FENCE = "fence"
    """Take the next epoch, so that no task that looked earlier starts a driver."""
    COMPARE = "compare"
    WARM = "warm"
    """Bring green's state near blue's position, while blue runs on."""
    SWITCH = "switch"
    """Bring green to blue's very position, lead consumers to it, and take the step."""
    RELEASE = "release"
    """Let the driver at the barrier continue."""
    TURN_BACK = "turn_back"
    """The same as to switch, back to blue."""
    UNDO = "undo"
    """Lead consumers that were led already back to blue, and take the step."""
    WANT_STOPPED = "want_stopped"
    """Record that a lane is to stay down."""
    WANT_RUNNING = "want_running"
    """Record that it is not: the person who wanted it has changed his mind."""
    CLOSE = "close"
    WAIT = "wait"
    """Look again later."""
    ASK = "ask"
    """Nothing continues until a user acts."""
    NOTHING = "nothing"
    """The change is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(engine.Move[CutoverEvent]):
    """
    A move of a cutover.

    :param pair: Number of the pair, from 0.
    :param lane: The lane to change; empty for a move of all.
    :param cause: For a launch: why.
    :param verdict: For a stop: the severity of the health verdict behind it, if any.
    """

    do: Do
    pair: int = 0
    lane: str = ""
    cause: LaunchCause = LaunchCause.CUTOVER
    verdict: Severity | None = None


def take(event: CutoverEvent, reason: str, facts: Mapping[str, str] | None = None) -> Move:
    """Return the move that takes a step."""
    return Move(do=Do.TAKE, reason=reason, event=event, facts=dict(facts or {}))


def first_of(moves: Iterable[Move | None]) -> Move | None:
    """
    Return the first active move; else a stop request, else a wait.

    So several lanes advance in parallel, and no lane waits for another one's wait.
    """
    found = [move for move in moves if move is not None]
    active = (move for move in found if not move.is_passive)
    asked = (move for move in found if move.do is Do.ASK)
    return next(active, None) or next(asked, None) or next(iter(found), None)


def of_pair(move: Move | None, index: int) -> Move | None:
    """Return a move with the number of the pair that it is about."""
    return None if move is None else replace(move, pair=index)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCare:
    """
    The next move that a lane needs to run.

    :param failed: Why it will not run on its own; else empty.
    """

    move: Move | None = None
    failed: str = ""


def care_for(lane: LaneView, cause: LaunchCause = LaunchCause.CUTOVER) -> LaneCare:
    """
    Return the next move that a lane needs to run.

    :param cause: Of a launch that is not a restart after a failure.
    """
    verdict = lane.verdict
    if lane.is_half_fenced:
        # Taken for an epoch whose driver is about to be started, it would keep the lane down.
        return LaneCare(move=_move(lane, Do.FENCE, "A fence is made whole."))
    if verdict is not None and verdict.state is VerdictState.COMPLETED:
        return LaneCare(failed=f"Its script has ended: {verdict.reason}")
    step = decide(_wanted(lane.situation, DesiredState.RUNNING))
    match step.action:
        case Action.WATCH | Action.WAIT:
            return LaneCare()
        case Action.LAUNCH:
            return LaneCare(move=_launch(lane, step, cause))
        case Action.PARK | Action.FINISH:
            return LaneCare(failed=step.reason)
        case Action.BLOCKED:
            return LaneCare(move=_move(lane, Do.ASK, step.reason))
    moves = {
        Action.STOP: Do.STOP,
        Action.KILL: Do.KILL,
        Action.SETTLE: Do.SETTLE,
        # Only the task that keeps the stream alive releases a standby that it has promoted.
        Action.RELEASE: Do.STOP,
    }
    move = _move(lane, moves[step.action], step.reason)
    return LaneCare(move=replace(move, verdict=step.verdict))


def bring_down(lane: LaneView, step: int, reason: str, *, in_haste: bool = False) -> Move | None:
    """
    Return the next move towards a lane without a driver, ``None`` when no task can start one.

    :param step: Fences taken before this step do not count: a task may have looked since.
    :param in_haste: A driver's word that its queries have ended is enough, while consumers wait;
        its process may still be going down. The fence then says nothing of that: the task that launches
        the next driver in this lane proves the one before it gone first, as ever.
    """
    if lane.is_fenced(step):
        return None
    seen = lane.situation.seen
    if seen is None or seen.epoch.cause is LaunchCause.FENCE or (in_haste and _has_drained(lane)):
        return _move(lane, Do.FENCE, reason)
    found = step_down(_wanted(lane.situation, DesiredState.STOPPED), reason)
    return _move(lane, Do(found.act), found.reason)


def _has_drained(lane: LaneView) -> bool:
    # Its queries have ended, by its own word; that its Spark still shuts down is waited for by
    # the task that starts the next driver in the same lane.
    seen = lane.situation.seen
    exit = None if seen is None else seen.exit
    # A cut-off driver may still write its last batch until its process is gone.
    return exit is not None and exit.outcome is Outcome.STOPPED and not exit.cut_off


def _wanted(situation: ReconcileInput, state: DesiredState) -> ReconcileInput:
    situation = under_change(situation, state)
    return replace(situation, watched=None, follows=None, may_stand_by=True)


def _launch(lane: LaneView, step: Step, cause: LaunchCause) -> Move:
    is_restart = step.cause is LaunchCause.RESTART
    move = _move(lane, Do.LAUNCH, step.reason)
    return replace(move, cause=LaunchCause.RESTART if is_restart else cause)


def _move(lane: LaneView, do: Do, reason: str) -> Move:
    return Move(do=do, reason=reason, lane=lane.lane)
