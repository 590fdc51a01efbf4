"""
Advancing: one move after another, until a state is reached or something has to be waited for.

While blue is drained and green takes over nothing is left to a later call: it is looked again ten
times a second, so that consumers wait as short as can be.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from airflow_streaming.core.change import Change
from airflow_streaming.core.cutover.moving.deciding import next_move
from airflow_streaming.core.cutover.moving.moves import Do
from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.terms import CutoverTerms
from airflow_streaming.cutover.acting import Acts
from airflow_streaming.cutover.looking import Looking
from airflow_streaming.cutover.progress import Progress, is_there, progress_of

MOST_MOVES: Final = 200
"""Moves in one go; the whole way there and back of one stream needs about forty."""
_HASTE_S: Final = 0.1
"""Seconds between two looks while consumers wait for rows."""
_PATIENT_S: Final = 1.0
"""The same when nothing has come of ``_HASTE_FOR_S`` of them."""
_HASTE_FOR_S: Final = 10.0
_MARGIN: Final = timedelta(seconds=60)

S = CutoverState
_IN_HASTE: Final = frozenset({S.DRAINING, S.SWITCHING, S.ROLLING_BACK, S.ROLLED_BACK})
"""Of a handover: the output has, or is about to have, nobody who writes it."""


class Advancing:
    """
    Makes the moves of a cutover.

    :param clock: Monotonic seconds.
    :param sleep: Waits some seconds.
    """

    def __init__(
        self,
        looking: Looking,
        acts: Acts,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._looking, self._acts = looking, acts
        self._clock, self._sleep = clock, sleep

    def advance(self, change: Change, terms: CutoverTerms, until: CutoverState) -> Progress:
        """Make all moves that can be made now; see ``Cutover.advance``."""
        hurry, moves = self._clock() + (terms.stop_grace + _MARGIN).total_seconds(), 0
        done = self._clock()
        while True:
            view = self._looking.look(change, terms)
            move = next_move(view)
            if is_there(view, move, until):
                return progress_of(view, is_there=True)
            waiting = move.reason if move.is_passive else self._acts.do(view, move)
            moves += waiting is None
            if moves > MOST_MOVES:
                waiting = f"{MOST_MOVES} moves came to nothing; the last: {move.reason}"
            if waiting is None:
                done = self._clock()
                continue
            needs_person = move.do in (Do.ASK, Do.KILL)
            is_in_haste = view.is_handover and view.state in _IN_HASTE
            is_over = needs_person or moves > MOST_MOVES or self._clock() >= hurry
            if is_over or not is_in_haste:
                return progress_of(view, waiting=waiting, needs_person=needs_person)
            self._sleep(_HASTE_S if self._clock() - done < _HASTE_FOR_S else _PATIENT_S)
