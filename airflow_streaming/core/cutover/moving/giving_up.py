"""Giving up: what ends a cutover from outside, whatever green shows."""

from __future__ import annotations

from airflow_streaming.core.cutover.moving.moves import Do, Move, take
from airflow_streaming.core.cutover.moving.view import CutoverView, PairView
from airflow_streaming.core.cutover.table import TABLE, CutoverEvent, CutoverState
from airflow_streaming.core.upgrade.preflight_page import duration_text

S, E = CutoverState, CutoverEvent


def given_up(view: CutoverView) -> Move | None:
    """Return the step with which a cutover is given up; ``None`` while nothing asks for it."""
    event, reason = _asked(view)
    if event is None or (view.state, event) not in TABLE:
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
    reason = "The stream is not wanted stopped any more."
    return Move(do=Do.WANT_RUNNING, reason=reason, lane=pair.blue.lane)


def _asked(view: CutoverView) -> tuple[CutoverEvent | None, str]:
    if is_stop_wanted(view):
        return E.STOP_WANTED, "The stream is wanted stopped."
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
        return f"Lane {green.lane} has a deployment {green.newest} that somebody else made."
    return ""
