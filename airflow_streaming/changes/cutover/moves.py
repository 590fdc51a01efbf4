"""
The moves of a cutover, a function for each state: watch green, hand over, abort, close.

A green that ends during the comparison is not restarted: the cutover is aborted, and blue stays.

In a handover green's next driver reaches the barrier and blue's approximate position, blue is
drained, and then green takes over. Blue is not touched while no driver waits at the barrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
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
from airflow_streaming.changes.cutover.view import (
    CutoverView,
    LaneView,
    PairView,
    for_stream,
    of_stream,
)
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.records.cutover import Result, comparison_of
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverEvent, CutoverState
from airflow_streaming.model.records.epoch import LaunchCause

E = CutoverEvent
_BACK = (E.GREEN_CHANGED, E.GREEN_FELL_BEHIND)

S, E = CutoverState, CutoverEvent

MUTE: Final = timedelta(seconds=30)
"""A driver at the barrier beats every few seconds; blue is not stopped for a silent one."""


def judged_green(view: CutoverView) -> Move | None:
    """Return the step that discards the results so far; ``None`` while they count."""
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
        return Move(do=Do.COMPARE, reason="Comparing the outputs of both lanes.", lane=missing[0])
    missing += [name for name in view.terms.checks if name not in view.checks]
    if missing:
        return Move(do=Do.WAIT, reason=f"Waiting for the results of: {', '.join(missing)}.")
    open_ones = [one for one in shown if one.result is Result.INCONCLUSIVE]
    if open_ones:
        return take(E.INCONCLUSIVE, f"{open_ones[0].name}: {open_ones[0].reason}")
    dropped = [p.ready.unwritten for p in view.pairs if p.ready is not None and p.ready.unwritten]
    if dropped:
        return take(E.INCONCLUSIVE, dropped[0])
    blind = [p.pair.stream for p in view.pairs if comparison_of(p.pair.stream) not in comparisons]
    if blind and not view.terms.checks:
        rows = "".join(f" {line}" for pair in view.pairs for line in _rows(pair))
        return take(E.NOTHING_COMPARED, f"No output of {', '.join(blind)} was compared.{rows}")
    return take(E.OUTPUT_SAME, " ".join(one.reason for one in shown))


def _rows(pair: PairView) -> Iterator[str]:
    """Yield what each query of green has done, for a user who decides without a comparison."""
    for name, told in (pair.ready.figures if pair.ready is not None else {}).items():
        if name.startswith("query "):
            yield f"{pair.pair.green}, {name}: {told}."


def changed_driver(view: CutoverView, pair: PairView) -> str:
    """Return why green's driver changed since its judgment; empty if it is the same."""
    bound = for_stream(pair.pair.stream, view.facts).get("green_epoch", "")
    if bound == str(pair.green_epoch):
        return ""
    return f"Epoch {pair.green_epoch} is not the judged one, which was {bound or 'none'}."


def given_up(view: CutoverView) -> Move | None:
    """Return the step that aborts a cutover, if requested."""
    event, reason = _asked(view)
    if event is None or not CUTOVER.allows(view.state, event):
        return None
    return take(event, reason)


def is_stop_wanted(view: CutoverView) -> bool:
    """Return whether one of the streams should stop, by the record of either lane."""
    return any(
        pair.blue.is_stopped_by_person
        # The lane may have a stop request from before the cutover.
        or (pair.green.newest >= pair.pair.shadow.number and pair.green.is_stopped_by_person)
        for pair in view.pairs
    )


def changed_mind(view: CutoverView, pair: PairView) -> Move | None:
    """
    Return the word that blue is to run after all.

    In a rollback the wish to stop is taken to blue, which is going to be live. The task that takes it
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
    # A green that has passed its soak, or for which nothing came, is not taken back because a user is slow.
    soaks = [pair.soak for pair in view.pairs]
    is_good = all(s is not None and (s.asks or s.event is E.SOAK_PASSED) for s in soaks)
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
            if pair.soak is not None and pair.soak.asks:
                return Move(do=Do.ASK, reason=f"{pair.pair.green}: {reason} {_decides(view)}")
            return Move(do=Do.WAIT, reason=f"{pair.pair.green}: {reason}")
    if view.terms.finalizes_by_itself:
        return take(E.SOAK_PASSED, " ".join(p.soak.reason for p in view.pairs if p.soak))
    return Move(
        do=Do.ASK,
        reason=f"The soak passed. {_decides(view)}",
    )


def _decides(view: CutoverView) -> str:
    return (
        "An approval is needed to keep green: airflow-streaming cutover keep or roll-back "
        f"{view.change.stream} --reason TEXT"
    )


def is_up(view: CutoverView) -> Move | None:
    """Return the step that follows when green does not run: it is not restarted meanwhile."""
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
        # Do not wait for a failed blue: it is kept only for a quick way back.
        if move is not None and not move.is_passive:
            return replace(move, pair=index)
    return None


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
        down = bring_down(green, view.step, _why_down(view))
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
        of_pair(bring_down(pair.blue, view.step, _why_down(view), in_haste=True), index)
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
    """Return the move against a waiting standby; blue is not touched without one."""
    since = view.step_into(S.WARMING)
    for pair in view.pairs:
        green = pair.green
        is_there = green.is_running and green.is_standby_of(since) and green.barrier is not None
        if not is_there or green.is_released:
            return take(E.GREEN_FAILED, f"The driver of {green.lane} at the barrier is dead.")
        care = care_for(green)
        if care.failed or care.move is not None:
            # Whatever it needs, the output has no writer meanwhile.
            why = care.failed or (care.move.reason if care.move else "")
            return take(E.GREEN_FAILED, f"{green.lane} does not stand by: {why}")
        if _is_mute(green):
            return take(E.GREEN_FAILED, f"Nothing is heard of {green.lane} at the barrier.")
    return None


def _as_judged(view: CutoverView) -> Move | None:
    """Return the move against a green that is about to become live."""
    for pair in view.pairs:
        if why := changed_driver(view, pair):
            # It ended just when it was released.
            return take(E.GREEN_FAILED, f"{pair.pair.green}: {why}")
    return is_up(view)


def _is_mute(lane: LaneView) -> bool:
    seen = lane.situation.seen
    return seen is not None and seen.silent_for >= MUTE


def _why_down(view: CutoverView) -> str:
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
    """Return the move that keeps a live green running; its keep-alive task only watches."""
    move = None if pair.green.is_stopped_by_person else care_for(pair.green).move
    return None if move is None or move.is_passive else move


def _leaves(view: CutoverView, pair: PairView) -> Move | None:
    # A blue that was removed is as stopped as can be.
    if pair.blue.situation.seen is None:
        return None
    return _down_for_good(pair.blue, view.step, f"Change {view.change.number}: green stays.")


def _blue_back(view: CutoverView, pair: PairView) -> Move | None:
    """Return what blue needs: its keep-alive task only looks on, so nothing else gives it."""
    care = care_for(pair.blue, LaunchCause.ROLLBACK)
    if care.move is not None and not care.move.is_passive:
        return care.move
    if not view.was_in(S.DRAINING, S.SWITCHING):
        # It was never requested to stop; the keep-alive task reports its failure.
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
    """Return the next move for a blue that waits at the barrier."""
    blue = pair.blue
    if (word := changed_mind(view, pair)) is not None:
        return word
    is_waiting = blue.epoch is not None and blue.epoch.standby and not blue.is_released
    if is_waiting and blue.is_wanted_stopped:
        return bring_down(blue, view.step, 'Desired state is "stopped".')
    if is_waiting and blue.is_running and blue.barrier is not None:
        return Move(do=Do.RELEASE, reason="Blue is live again.", lane=blue.lane)
    return None
