"""Records of a cutover: steps, participants, checks and its end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from airflow_streaming.changes import engine
from airflow_streaming.changes.cutover.lane_moves import Do, Move
from airflow_streaming.changes.cutover.lanes import Compare, Lanes, guest_of
from airflow_streaming.changes.cutover.view import CutoverView
from airflow_streaming.changes.judging.green import Judgment, fold_errors
from airflow_streaming.exceptions import AlreadyExists, HomeError, SpecError, StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.records.control import (
    Change,
    ChangeEnd,
    ChangeKind,
    ChangeOutcome,
    Event,
    EventKind,
)
from airflow_streaming.model.records.cutover import CheckResult, CutoverTerms, Result, comparison_of
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)

log: Final = logging.getLogger(__name__)
_OUTCOMES: Final = {
    CutoverState.FINALIZED: ChangeOutcome.DONE,
    CutoverState.RETIRED: ChangeOutcome.DONE,
    CutoverState.ROLLED_BACK: ChangeOutcome.ROLLED_BACK,
    CutoverState.ABORTED: ChangeOutcome.ABANDONED,
}

S = CutoverState
_ORDER: Final = (
    *(S.PLANNED, S.STARTING, S.CATCHING_UP, S.SHADOWING, S.COMPARING, S.READY, S.WARMING),
    *(S.DRAINING, S.SWITCHING, S.LIVE, S.SOAKING, S.FINALIZING, S.FINALIZED, S.RETIRED),
)
"""The way forward; other states are not on it."""
_RESTLESS: Final = frozenset({S.DRAINING, S.SWITCHING, S.LIVE})
"""States in which no work is left undone because of a request to come no further."""
_JUDGED: Final = frozenset({S.SHADOWING, S.COMPARING, S.READY})


class Recorder(engine.Recorder[CutoverState, CutoverEvent, CutoverTransition]):
    """Writes down how far a cutover has come: in the home that leads it."""

    table = CUTOVER
    transition = CutoverTransition

    def __init__(self, lanes: Lanes, *, by: str, now: Callable[[], datetime]) -> None:
        super().__init__(by=by, now=now)
        self._lanes = lanes

    def record(self, step: CutoverTransition) -> CutoverTransition:
        return self._lanes.home.take_step(step)

    def tell_step(self, view: Any, step: CutoverTransition) -> None:
        """Add a step that was taken to the timelines of all lanes and to the task log."""
        message = f"{step.event}: {step.before} to {step.after}. {step.reason}"
        self._tell(view.change, view.terms, message, step.facts)

    def invite(self, change: Change, terms: CutoverTerms) -> None:
        """Record the change in every lane that it touches, where it is not yet."""
        for stream, lane in self._lanes.guests(terms):
            if self._lanes.change_in(lane, stream, change) is None:
                home = self._lanes.of(stream, lane).home
                if home.unfinished_change() is None:
                    self._invite(home, change)

    def _invite(self, home: StreamHome, change: Change) -> None:
        newest = home.newest_deployment()
        number = 0 if newest is None else newest.number
        guest = Change(
            number=home.next_change(),
            stream=home.name,
            what=ChangeKind.CUTOVER,
            replaced=number,
            deployment=number,
            checkpoint="" if newest is None else newest.checkpoint,
            by=change.by,
            reason=change.reason,
            at=self._now(),
            leader=guest_of(change.stream, change.number),
        )
        try:
            home.begin_change(guest)
        except AlreadyExists:
            log.info(
                "Change %d of lane %s was already started by another task.", guest.number, home.name
            )
            return
        # A late task finds its leader closed, and no other task would ever close the guest.
        close_orphan(home, guest, by=self._by, now=self._now())

    def close(self, view: CutoverView) -> None:
        """Close the change, the guests' first: without their leader they would stay open."""
        change = view.change
        for stream, lane in self._lanes.guests(view.terms):
            number = self._lanes.change_in(lane, stream, change)
            home = self._lanes.of(stream, lane).home
            if number is not None and home.change_end(number) is None:
                home.end_change(self._end(number, view))
        # The last step has already announced the end.
        self._lanes.home.end_change(self._end(change.number, view))

    def tell(self, home: StreamHome, event: EventKind, message: str) -> None:
        """Add a line to one lane's timeline and to the task log."""
        log.info("%s", message)
        home.add_event(Event(event=event, at=self._now(), by=self._by, message=message))

    def _end(self, number: int, view: CutoverView) -> ChangeEnd:
        return ChangeEnd(
            number=number,
            outcome=_OUTCOMES[view.state],
            by=self._by,
            reason=view.history[-1].reason,
            at=self._now(),
        )

    def _tell(
        self, change: Change, terms: CutoverTerms, message: str, facts: Mapping[str, str]
    ) -> None:
        told = f"Cutover {change.number} led by {change.stream}: {message}"
        log.info("%s", told)
        event = Event(
            event=EventKind.CUTOVER,
            at=self._now(),
            by=self._by,
            message=told,
            facts={"change": str(change.number), **facts},
        )
        for pair in terms.pairs:
            for lane in (pair.blue, pair.green):
                self._lanes.of(pair.stream, lane).home.add_event(event)


def close_orphan(home: StreamHome, guest: Change, *, by: str, now: datetime) -> bool:
    """Close a guest whose leader has ended; tell whether it has."""
    leader, number = home.leader_of(guest)
    end = leader.change_end(number)
    if end is None:
        return False
    home.end_change(replace(end, number=guest.number, by=by, at=now))
    return True


class Checks:
    """
    Runs comparisons, and keeps their results.

    :param compare: Compares; ``None`` for a task that cannot, which waits for results.
    """

    def __init__(self, lanes: Lanes, recorder: Recorder, compare: Compare | None) -> None:
        self._lanes, self._recorder, self._compare = lanes, recorder, compare

    def compare(self, view: CutoverView, move: Move) -> None:
        """Compare the outputs of the stream whose comparison is missing."""
        terms = next(one for one in view.terms.compare if comparison_of(one.stream) == move.lane)
        judged = self._judged(view, terms)
        self.keep(view, move.lane, judged.result, judged.reason, judged.figures)

    def keep(
        self,
        view: CutoverView,
        name: str,
        result: Result,
        reason: str,
        figures: Mapping[str, str] | None = None,
    ) -> CheckResult:
        """Record a check's result; the first one of a stay counts."""
        return self._lanes.home.record_check(
            CheckResult(
                change=view.change.number,
                step=view.step,
                name=name,
                result=result,
                reason=reason,
                at=self._recorder.now,
                by=self._recorder.by,
                figures=dict(figures or {}),
            )
        )

    def _judged(self, view: CutoverView, terms: CompareTerms) -> Judgment:
        one = next(pair for pair in view.pairs if pair.pair.stream == terms.stream)
        blue = self._lanes.blue(one.pair).home.deployment(one.pair.blue_deployment)
        errors = 0
        while self._compare is not None:
            try:
                return self._compare(terms, blue, one.pair.shadow)
            except HomeError:
                raise
            except SpecError as err:
                return Judgment(result=Result.INCONCLUSIVE, reason=str(err))
            except StreamingError as err:
                log.warning("The outputs of %s could not be compared: %s", terms.stream, err)
                folded = fold_errors(errors, view.terms.ready, str(err))
                errors = folded.errors
                if folded.event is not None:
                    return folded
        return Judgment(result=Result.INCONCLUSIVE, reason="Outputs cannot be compared from here.")


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
    """Return whether green changed since it came here."""
    if move.event is None:
        return not move.is_passive and move.do is not Do.COMPARE
    comes_to = CUTOVER.after(view.state, move.event)
    return comes_to not in _ORDER or _ORDER.index(comes_to) < _ORDER.index(view.state)
