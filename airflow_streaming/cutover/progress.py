"""What somebody who takes a cutover on is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_streaming.core.cutover.moving.moves import Do, Move
from airflow_streaming.core.cutover.moving.view import CutoverView
from airflow_streaming.core.cutover.table import CutoverState, after

S = CutoverState
_ORDER: Final = (
    *(S.PLANNED, S.STARTING, S.CATCHING_UP, S.SHADOWING, S.COMPARING, S.READY, S.WARMING),
    *(S.DRAINING, S.SWITCHING, S.LIVE, S.SOAKING, S.FINALISING, S.FINALISED, S.RETIRED),
)
"""The way forward; a state that is not on it is no place to have come to."""
_RESTLESS: Final = frozenset({S.DRAINING, S.SWITCHING, S.LIVE})
"""States in which nobody leaves work undone because he was asked to come no further."""
_JUDGED: Final = frozenset({S.SHADOWING, S.COMPARING, S.READY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """
    How far a cutover has come.

    :param change: Number of the change in the leading stream.
    :param state: Where it is.
    :param reason: Why it came there.
    :param is_there: The state asked for, or an end, is reached: nothing more to do for the caller.
    :param waiting: Otherwise: what is waited for, in a sentence. Look again after some seconds.
    :param needs_person: Nothing goes on until somebody gives a word (``promote``, ``abort``,
        ``keep``, ``look_again``, ``roll_back``), or looks after a driver that cannot be seen.
    :param facts: Facts of all steps together; those of a later one count.
    """

    change: int
    state: CutoverState
    reason: str
    is_there: bool
    waiting: str = ""
    needs_person: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


def is_there(view: CutoverView, move: Move, until: CutoverState) -> bool:
    """Tell whether a cutover has come to a state, or to its end, and may be left there."""
    if view.is_closed:
        return True
    if until not in _ORDER or view.state not in _ORDER or until.is_end:
        return False
    if _ORDER.index(view.state) < _ORDER.index(until):
        return False
    if view.state in _RESTLESS:
        return view.state is S.LIVE and move.is_passive
    return view.state not in _JUDGED or not _goes_wrong(view, move)


def _goes_wrong(view: CutoverView, move: Move) -> bool:
    """Tell whether green is not what it was when it came here."""
    if move.event is None:
        return not move.is_passive and move.do is not Do.COMPARE
    comes_to = after(view.state, move.event)
    return comes_to not in _ORDER or _ORDER.index(comes_to) < _ORDER.index(view.state)


def progress_of(
    view: CutoverView, *, is_there: bool = False, waiting: str = "", needs_person: bool = False
) -> Progress:
    """Return what the caller is told."""
    return Progress(
        change=view.change.number,
        state=view.state,
        reason=view.history[-1].reason if view.history else view.change.reason,
        is_there=is_there,
        waiting=waiting,
        needs_person=needs_person,
        facts=view.facts,
    )
