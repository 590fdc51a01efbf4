"""
Watching green once it is live: until it has committed a batch, and through its soak.

Nobody restarts it meanwhile: a green that ends is given up, and blue comes back.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.core.cutover.moving.caring import bring_down, care_for
from airflow_streaming.core.cutover.moving.giving_up import given_up
from airflow_streaming.core.cutover.moving.moves import Do, Move, take
from airflow_streaming.core.cutover.moving.view import CutoverView
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState

S, E = CutoverState, CutoverEvent


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
    if view.terms.finalises_by_itself:
        return take(E.SOAK_PASSED, " ".join(p.soak.reason for p in view.pairs if p.soak))
    return Move(
        do=Do.ASK,
        reason="The soak was good. Somebody has to say that green stays: airflow-streaming cutover "
        f"keep or roll-back {view.change.stream} --reason TEXT",
    )


def is_up(view: CutoverView) -> Move | None:
    """Return the step that follows when green does not run: nobody restarts it meanwhile."""
    for pair in view.pairs:
        care = care_for(pair.green)
        if pair.green.is_running and not care.failed and care.move is None:
            continue
        verdict = pair.green.verdict
        why = care.failed or (verdict.reason if verdict else "It is no longer in the home.")
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
