"""
The moves of a cutover: run a lane, watch green, hand over, give up, close.

A cutover keeps a lane alive by the very rules by which keep-alive tasks do, and brings it down as
an upgrade does: asked, waited for, killed if need be, proved gone, and fenced.

Nobody restarts it meanwhile: a green that ends is given up, and blue comes back.

Green's next driver comes to the barrier and near blue's position, blue is drained, and then green
takes over. Blue is not touched while no driver waits at the barrier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.changes import engine
from airflow_streaming.changes.cutover.view import (
    CutoverView,
    LaneView,
    PairView,
    for_stream,
    of_stream,
)
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import Severity
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.cutover import Result, comparison_of
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverEvent, CutoverState
from airflow_streaming.model.records.epoch import LaunchCause, Outcome
from airflow_streaming.supervision.decide import Action, ReconcileInput, Step, decide


class Do(StrEnum):
    """What to do next."""

    TAKE = "take"
    """Take the step of an event."""
    INVITE = "invite"
    """Record the change in every lane that the cutover touches."""
    START = "start"
    """Make green's first checkpoint, and its deployment."""
    RESERVE = "reserve"
    """Make green's deployment only so that nobody who is late can."""
    DEPLOY_LIVE = "deploy_live"
    """Handover: the deployment with which green goes on in blue's output."""
    DEPLOY_BACK = "deploy_back"
    """Handover: the deployment with which blue goes on in its output again."""
    LAUNCH = "launch"
    STAND_BY = "stand_by"
    """Launch a driver that waits at the barrier."""
    STOP = "stop"
    KILL = "kill"
    SETTLE = "settle"
    """Record what becomes of a failed epoch."""
    FENCE = "fence"
    """Take the next epoch, so that nobody who looked earlier starts a driver."""
    COMPARE = "compare"
    WARM = "warm"
    """Bring green's state near blue's position, while blue runs on."""
    SWITCH = "switch"
    """Bring green to blue's very position, lead consumers to it, and take the step."""
    RELEASE = "release"
    """Let the driver at the barrier go on."""
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
    """Nothing goes on until a person acts."""
    NOTHING = "nothing"
    """The change is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(engine.Move[CutoverEvent]):
    """
    One move of a cutover.

    :param pair: Which pair it is about, from 0.
    :param lane: The lane in which something is done; empty for a move of all.
    :param cause: For a launch: why.
    :param verdict: For a stop: what the health verdict behind it asked for, if one did.
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
    Return the first move that is one to make; else what to ask, else what to wait for.

    So several lanes come on side by side, and none has to wait for what another waits for.
    """
    found = [move for move in moves if move is not None]
    active = (move for move in found if not move.is_passive)
    asked = (move for move in found if move.do is Do.ASK)
    return next(active, None) or next(asked, None) or next(iter(found), None)


def of_pair(move: Move | None, index: int) -> Move | None:
    """Return a move with the number of the pair that it is about."""
    return None if move is None else replace(move, pair=index)


E = CutoverEvent
_BACK = (E.GREEN_CHANGED, E.GREEN_FELL_BEHIND)


def judged_green(view: CutoverView) -> Move | None:
    """Return the step that makes nothing of what was shown so far; ``None`` while it counts."""
    for pair in view.pairs:
        why = changed_driver(view, pair)
        if why:
            return take(E.GREEN_CHANGED, f"{pair.pair.green}: {why}")
        told = pair.ready
        if told is None or told.event is None or not CUTOVER.allows(view.state, told.event):
            continue
        is_hold = told.event is E.INCONCLUSIVE and view.state.value == "shadowing"
        if told.event in _BACK or is_hold:
            facts = of_stream(pair.pair.stream, told.figures)
            return take(told.event, f"{pair.pair.green}: {told.reason}", facts)
    return None


def next_comparison(view: CutoverView) -> Move:
    """Return what follows from what comparisons and checks have shown so far."""
    shown = list(view.checks.values())
    failed = [one for one in shown if one.result is Result.FAIL]
    if failed:
        return take(E.OUTPUT_DIFFERS, f"{failed[0].name}: {failed[0].reason}", failed[0].figures)
    comparisons = [comparison_of(terms.stream) for terms in view.terms.compare]
    missing = [name for name in comparisons if name not in view.checks]
    if missing and view.compares:
        return Move(do=Do.COMPARE, reason="What both have written is compared.", lane=missing[0])
    missing += [name for name in view.terms.checks if name not in view.checks]
    if missing:
        return Move(do=Do.WAIT, reason=f"No result was given yet for: {', '.join(missing)}.")
    open_ones = [one for one in shown if one.result is Result.INCONCLUSIVE]
    if open_ones:
        return take(E.INCONCLUSIVE, f"{open_ones[0].name}: {open_ones[0].reason}")
    return take(E.OUTPUT_SAME, " ".join(one.reason for one in shown) or "Nothing is compared.")


def changed_driver(view: CutoverView, pair: PairView) -> str:
    """Say that green's driver is not the one that was judged; empty when it is."""
    bound = for_stream(pair.pair.stream, view.facts).get("green_epoch", "")
    if bound == str(pair.green_epoch):
        return ""
    return f"Epoch {pair.green_epoch} is not the one that was judged, which was {bound or 'none'}."


S, E = CutoverState, CutoverEvent


def given_up(view: CutoverView) -> Move | None:
    """Return the step with which a cutover is given up; ``None`` while nothing asks for it."""
    event, reason = _asked(view)
    if event is None or not CUTOVER.allows(view.state, event):
        return None
    return take(event, reason)


def is_stop_wanted(view: CutoverView) -> bool:
    """Tell whether somebody wants one of the streams stopped, by whichever lane he did so."""
    return any(
        pair.blue.is_stopped_by_person
        # The lane may be wanted stopped still from before it had a part in this.
        or (pair.green.newest >= pair.pair.shadow.number and pair.green.is_stopped_by_person)
        for pair in view.pairs
    )


def changed_mind(view: CutoverView, pair: PairView) -> Move | None:
    """
    Return the word that blue is to run after all.

    In a rollback the wish to stop is taken to blue, which is going to be live. Whoever takes it
    back in green, while that one is live, must not find the stream stopped in the end.
    """
    if is_stop_wanted(view) or not pair.blue.is_stopped_by_us:
        return None
    reason = 'Desired state is no longer "stopped".'
    return Move(do=Do.WANT_RUNNING, reason=reason, lane=pair.blue.lane)


def _asked(view: CutoverView) -> tuple[CutoverEvent | None, str]:
    if is_stop_wanted(view):
        return E.STOP_WANTED, 'Desired state is "stopped".'
    changed = next((why for pair in view.pairs if (why := _other_spec(view, pair))), "")
    if changed:
        return E.SPEC_CHANGED, changed
    deadline, lasted = view.terms.deadline(view.state), view.lasted
    if deadline is not None and lasted > deadline and not _waits_for_word(view):
        return E.DEADLINE, (
            f"State {view.state} has lasted longer than the {duration_text(deadline)} that are "
            "allowed."
        )
    return None, ""


def _waits_for_word(view: CutoverView) -> bool:
    # A green that has passed its soak is not taken back because a person is slow.
    is_good = all(p.soak is not None and p.soak.event is E.SOAK_PASSED for p in view.pairs)
    return view.state is S.SOAKING and is_good


def _other_spec(view: CutoverView, pair: PairView) -> str:
    blue, green = pair.blue, pair.green
    if blue.newest != pair.pair.blue_deployment:
        found = f"deployment {blue.newest}" if blue.newest else "no deployment any more"
        return f"Lane {blue.lane} has {found}, not {pair.pair.blue_deployment}."
    expected = {pair.pair.shadow.number: pair.pair.shadow, pair.pair.live.number: pair.pair.live}
    if green.newest < pair.pair.shadow.number:
        return (
            "" if not view.was_in(S.CATCHING_UP) else f"Lane {green.lane} has lost its deployment."
        )
    found_green, planned = green.situation.deployment, expected.get(green.newest)
    if found_green is None or planned is None or found_green.fingerprint != planned.fingerprint:
        return f"Lane {green.lane} has deployment {green.newest}, which another task created."
    return ""


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
    moves = {
        Action.STOP: Do.STOP,
        Action.KILL: Do.KILL,
        Action.SETTLE: Do.SETTLE,
        # Only the task that keeps the stream alive releases a standby that it has promoted.
        Action.RELEASE: Do.STOP,
    }
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


def _wanted(situation: ReconcileInput, state: DesiredState) -> ReconcileInput:
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


def live(view: CutoverView) -> Move:
    """Return the next move once consumers are led to green."""
    if (move := given_up(view)) is not None:
        return move
    for index, pair in enumerate(view.pairs):
        if view.is_handover and pair.green.is_running and not pair.green.is_released:
            return Move(do=Do.RELEASE, reason="Green is live.", pair=index, lane=pair.pair.green)
    if (move := is_up(view) or _blue_beside(view)) is not None:
        return move
    waits = [pair for pair in view.pairs if not pair.has_committed]
    if waits:
        return Move(do=Do.WAIT, reason=f"{waits[0].pair.green} has still to commit a batch.")
    return take(E.GREEN_COMMITTED, "Green has committed a batch since it became live.")


def soaking(view: CutoverView) -> Move:
    """Return the next move of the soak."""
    if (move := given_up(view) or is_up(view)) is not None:
        return move
    for pair in view.pairs:
        if pair.soak is not None and pair.soak.event is E.SOAK_FAILED:
            return take(E.SOAK_FAILED, f"{pair.pair.green}: {pair.soak.reason}")
    if (move := _blue_beside(view)) is not None:
        return move
    for pair in view.pairs:
        if pair.soak is None or pair.soak.event is not E.SOAK_PASSED:
            reason = pair.soak.reason if pair.soak else "The figures are not known yet."
            return Move(do=Do.WAIT, reason=f"{pair.pair.green}: {reason}")
    if view.terms.finalizes_by_itself:
        return take(E.SOAK_PASSED, " ".join(p.soak.reason for p in view.pairs if p.soak))
    return Move(
        do=Do.ASK,
        reason="The soak passed. An approval is needed to keep green: airflow-streaming cutover keep or "
        f"roll-back {view.change.stream} --reason TEXT",
    )


def is_up(view: CutoverView) -> Move | None:
    """Return the step that follows when green does not run: nobody restarts it meanwhile."""
    for pair in view.pairs:
        care = care_for(pair.green)
        if pair.green.is_running and not care.failed and care.move is None:
            continue
        verdict = pair.green.verdict
        why = care.failed or (verdict.reason if verdict else "It is missing from the home.")
        if care.move is not None and care.move.do is Do.ASK:
            return care.move
        return take(E.GREEN_FAILED, f"{pair.pair.green}: {why}")
    return None


def _blue_beside(view: CutoverView) -> Move | None:
    """Return what blue needs in the soak: to run on, or to be down."""
    if view.is_handover:
        return None
    for index, pair in enumerate(view.pairs):
        if view.terms.keeps_blue_running:
            move = care_for(pair.blue).move
        else:
            since = view.step_into(S.LIVE)
            move = bring_down(pair.blue, since, f"Change {view.change.number}: green is live.")
        # What cannot be helped is not waited for: blue is only kept so that going back is quick.
        if move is not None and not move.is_passive:
            return replace(move, pair=index)
    return None


MUTE: Final = timedelta(seconds=30)
"""A driver at the barrier beats every few seconds; blue is not stopped for one that does not."""


def warming(view: CutoverView) -> Move:
    """Return the next move towards a driver that waits at the barrier."""
    if (move := given_up(view)) is not None:
        return move
    moves = (of_pair(_warm(view, pair), index) for index, pair in enumerate(view.pairs))
    if (move := first_of(moves)) is not None:
        return move
    return Move(do=Do.WARM, reason="Fast-forwarding green's next driver towards blue's position.")


def _warm(view: CutoverView, pair: PairView) -> Move | None:
    green = pair.green
    if green.newest < pair.pair.live.number:
        down = bring_down(green, view.step, _handing(view))
        return down or Move(do=Do.DEPLOY_LIVE, reason="Green resumes in blue's output.")
    care = care_for(green)
    if care.failed:
        return take(E.GREEN_FAILED, care.failed)
    if care.move is not None and care.move.do is Do.LAUNCH:
        return replace(care.move, do=Do.STAND_BY)
    if care.move is not None:
        return care.move
    if not green.is_standby_of(view.step) or green.barrier is None:
        return Move(
            do=Do.WAIT, reason=f"Waiting for the next driver of {green.lane} to reach the barrier."
        )
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
    return take(E.BLUE_DRAINED, "Blue has ended at a batch boundary, and no task can start it.")


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
            return take(E.GREEN_FAILED, f"The driver of {green.lane} at the barrier is dead.")
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


def finalizing(view: CutoverView) -> Move:
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
        return Move(do=Do.WAIT, reason=f"{pair.blue.lane} has been drained and is started again.")
    return care.move


def _green_away(view: CutoverView, pair: PairView) -> Move | None:
    if pair.green.newest < pair.pair.shadow.number:
        return Move(
            do=Do.RESERVE,
            reason="Reserving green's deployment number so that a late task cannot create it.",
        )
    return _down_for_good(pair.green, view.step, view.history[-1].reason)


def _goes_on(view: CutoverView, pair: PairView) -> Move | None:
    """Return what becomes of a blue that waits at the barrier."""
    blue = pair.blue
    if (word := changed_mind(view, pair)) is not None:
        return word
    is_waiting = blue.epoch is not None and blue.epoch.standby and not blue.is_released
    if is_waiting and blue.is_wanted_stopped:
        return bring_down(blue, view.step, 'Desired state is "stopped".')
    if is_waiting and blue.is_running and blue.barrier is not None:
        return Move(do=Do.RELEASE, reason="Blue is live again.", lane=blue.lane)
    return None
