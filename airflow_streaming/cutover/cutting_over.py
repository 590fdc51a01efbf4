"""
The cutover: from one lane of a stream, or of several, to the other.

It observes, decides, records and acts like everything here. Whoever dies between two steps leaves
enough behind for the next one, who may be another task, to go on; two at it at once do no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.cutover.judging.checks import CheckResult
from airflow_streaming.core.cutover.judging.judge import Result
from airflow_streaming.core.cutover.moving.deciding import next_move
from airflow_streaming.core.cutover.moving.moves import Move
from airflow_streaming.core.cutover.moving.view import CutoverView
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState, after
from airflow_streaming.core.cutover.terms import CutoverTerms
from airflow_streaming.cutover.acting import Acts
from airflow_streaming.cutover.advancing import Advancing
from airflow_streaming.cutover.beginning import Beginning
from airflow_streaming.cutover.checks import Checks
from airflow_streaming.cutover.deploying import Deploying
from airflow_streaming.cutover.handing import Handing
from airflow_streaming.cutover.lanes import Lanes
from airflow_streaming.cutover.leading import Leading
from airflow_streaming.cutover.looking import Looking
from airflow_streaming.cutover.memory import ERRORS, LANES, STEP, StepSeen
from airflow_streaming.cutover.pointers.port import Pointer
from airflow_streaming.cutover.ports import Checkpoints, Compare, LaneSource, Retire
from airflow_streaming.cutover.progress import Progress, progress_of
from airflow_streaming.cutover.recording import Recorder
from airflow_streaming.cutover.switching import Switching
from airflow_streaming.cutover.words import Words
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.launch.switching import now_in_utc

__all__ = ["Cutover", "Progress"]

S = CutoverState


class Cutover:
    """
    Takes the cutovers of one leading stream on, on behalf of one task or person.

    Everything may be called again, by anybody and at any time: what was done is found and not done
    twice.

    :param leader: The stream whose base lane keeps the records.
    :param lanes: Opens lanes. Each is opened once; its observer remembers from look to look.
    :param by: Who acts, for the records.
    :param checkpoints: What is done with checkpoints; without it green cannot be started and no
        output handed over, and all else goes on.
    :param pointers: What consumers follow beside the home's own pointer, by name in the terms; of a
        stream that does not lead as ``STREAM/NAME``.
    :param compare: Compares outputs; without it the engine waits to be told (``checked``).
    :param retire: Takes the final backup of blue.
    :param memory: What an engine before, or a trigger, has left (``memory``); that of observers is
        the business of whoever opens ``lanes``.
    :param now: The time of day.
    :param clock: Monotonic seconds.
    :param sleep: Waits some seconds; only while blue is drained and green takes over.
    """

    def __init__(
        self,
        leader: str,
        lanes: LaneSource,
        *,
        by: str,
        checkpoints: Checkpoints | None = None,
        pointers: Mapping[str, Pointer] | None = None,
        compare: Compare | None = None,
        retire: Retire | None = None,
        memory: Mapping[str, Any] | None = None,
        now: Callable[[], datetime] = now_in_utc,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._lanes = Lanes(leader, lanes)
        self._recorder = Recorder(self._lanes, by=by, now=now)
        known = memory or {}
        self._looking = Looking(
            self._lanes,
            checkpoints,
            compares=compare is not None,
            now=now,
            newest=StepSeen(known.get(STEP), clock=clock),
        )
        self._looking.errors.update(known.get(ERRORS, {}))
        self._checks = Checks(self._lanes, self._recorder, compare)
        handing = None
        if checkpoints is not None:
            handing = Handing(checkpoints, by=by, now=now, clock=clock, sleep=sleep)
        self._acts = Acts(
            self._lanes,
            self._recorder,
            Deploying(self._lanes, self._recorder, checkpoints),
            Switching(
                self._lanes,
                self._recorder,
                checkpoints,
                handing,
                Leading(self._lanes, self._recorder, pointers or {}),
            ),
            self._checks,
        )
        self._advancing = Advancing(self._looking, self._acts, clock=clock, sleep=sleep)
        self._words = Words(self._lanes, self._recorder, retire)

    def memory(self) -> dict[str, Any]:
        """Return what was learnt beside the records; hand it to the next engine, and its lanes."""
        return {
            LANES: self._lanes.memory(),
            ERRORS: dict(self._looking.errors),
            STEP: self._looking.newest.memory(),
        }

    def begin(self, terms: CutoverTerms, sources: Mapping[str, bytes], reason: str = "") -> Change:
        """
        Open the change, or find the one that was opened for the same.

        :param terms: Their number is given anew.
        :param sources: By stream, the script of ``shadow``, which ``live`` runs too.
        :raises CutoverRefused: with a sentence; nothing was recorded.
        :raises SpecError: green could not be launched with what the dag gives now.
        """
        return Beginning(self._lanes, self._recorder).begin(terms, sources, reason)

    def current(self) -> tuple[Change, CutoverTerms] | None:
        """Return the open cutover that this stream leads, if there is one."""
        change = self._lanes.home.unfinished_change()
        if change is None or change.what is not ChangeSort.CUTOVER or change.leader:
            return None
        return change, self._lanes.home.cutover_terms(change)

    def look(self, change: int | None = None) -> tuple[CutoverView, Move]:
        """Look once, and tell what would be done next; nothing is."""
        found = self._find(change)
        view = self._looking.look(found, self._lanes.home.cutover_terms(found))
        return view, next_move(view)

    def advance(self, until: CutoverState, change: int | None = None) -> Progress:
        """
        Do what is next until a state or an end is reached, or something has to be waited for.

        :param until: A state on the way forward; any end counts as well.
        :param change: Which cutover; the newest one when not given.
        :raises CutoverRefused: the stream leads no such cutover.
        :raises RecordError: its terms cannot be read.
        :raises HomeUnavailable: a store could not be reached; call again.
        """
        found = self._find(change)
        return self._advancing.advance(found, self._lanes.home.cutover_terms(found), until)

    def promote(self, reason: str, change: int | None = None) -> Progress:
        """
        Say that a ready green, or one of which nothing is proved, becomes live.

        :raises CutoverRefused: it is not ready, or not any more.
        """
        view, move = self.look(change)
        event = CutoverEvent.HAND_OVER if view.is_handover else CutoverEvent.PROMOTE
        after(view.state, event)
        if not move.is_passive and move.event is not event:
            raise CutoverRefused(
                f"Green of {view.change.stream} is not made live: {move.reason} Nothing was done."
            )
        return self._said(view, event, reason)

    def look_again(self, reason: str, change: int | None = None) -> Progress:
        """Say that green is measured once more."""
        return self._say(CutoverEvent.LOOK_AGAIN, reason, change)

    def abort(self, reason: str, change: int | None = None) -> Progress:
        """Give it up before the switch: blue stays, or comes back."""
        return self._say(CutoverEvent.ABORT, reason, change)

    def roll_back(self, reason: str, change: int | None = None) -> Progress:
        """Give it up after the switch; before it this is the same as ``abort``."""
        view, _ = self.look(change)
        event = CutoverEvent.ABORT if view.state.can_abort else CutoverEvent.ROLL_BACK
        return self._said(view, event, reason)

    def keep(self, reason: str, change: int | None = None) -> Progress:
        """Say that green stays whatever the soak says: the point of no return."""
        return self._say(CutoverEvent.KEEP, reason, change)

    def retire(self, reason: str, change: int | None = None) -> Progress:
        """
        Take blue's final backup and free its lane; the cutover has to be finalised.

        :raises CutoverRefused: it is not finalised.
        :raises CheckpointError: the backup could not be taken.
        """
        found = self._find(change)
        view = self._looking.look(found, self._lanes.home.cutover_terms(found))
        self._words.retire(view, reason)
        return self._now(found)

    def checked(
        self,
        name: str,
        passed: bool | None,
        reason: str,
        figures: Mapping[str, str] | None = None,
        change: int | None = None,
    ) -> CheckResult:
        """
        Tell what a check of the author's, or a comparison (``compare.STREAM``), has shown.

        :param passed: ``None``: nothing is proved.
        :returns: The result that counts for this stay in ``comparing``: the first one.
        :raises CutoverRefused: the cutover is not in ``comparing``.
        """
        view, _ = self.look(change)
        if view.state is not S.COMPARING:
            raise CutoverRefused(
                f"Check {name!r} comes when cutover {view.change.number} of {view.change.stream} "
                f"is in {view.state.value!r}; it counts in 'comparing' only."
            )
        results = {True: Result.PASS, False: Result.FAIL, None: Result.INCONCLUSIVE}
        return self._checks.keep(view, name, results[passed], reason, figures)

    def _say(self, event: CutoverEvent, reason: str, change: int | None) -> Progress:
        view, _ = self.look(change)
        return self._said(view, event, reason)

    def _said(self, view: CutoverView, event: CutoverEvent, reason: str) -> Progress:
        self._words.say(view, event, reason)
        return self._now(view.change)

    def _now(self, change: Change) -> Progress:
        view = self._looking.look(change, self._lanes.home.cutover_terms(change))
        return progress_of(view, is_there=view.is_closed)

    def _find(self, number: int | None) -> Change:
        home = self._lanes.home
        led = (one for one in home.changes() if home.leads(one))
        wanted = [one for one in led if number in (None, one.number)]
        if not wanted:
            which = "no cutover" if number is None else f"no cutover with the number {number}"
            raise CutoverRefused(f"Stream {home.name!r} leads {which}. Begin one first.")
        return wanted[-1]
