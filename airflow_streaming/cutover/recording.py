"""What a cutover writes down: its steps, its guests, its end, and a line in every lane's timeline."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from airflow_streaming.core.change import Change, ChangeEnd, ChangeOutcome, ChangeSort
from airflow_streaming.core.control import Event, EventKind
from airflow_streaming.core.cutover.moving.view import CutoverView
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState, after
from airflow_streaming.core.cutover.terms import CutoverTerms
from airflow_streaming.core.cutover.transition import Transition
from airflow_streaming.cutover.lanes import Lanes, guest_of
from airflow_streaming.exceptions import AlreadyExists
from airflow_streaming.home.home import StreamHome

log: Final = logging.getLogger(__name__)

_OUTCOMES: Final = {
    CutoverState.FINALISED: ChangeOutcome.DONE,
    CutoverState.RETIRED: ChangeOutcome.DONE,
    CutoverState.ROLLED_BACK: ChangeOutcome.ROLLED_BACK,
    CutoverState.ABORTED: ChangeOutcome.ABANDONED,
}


class Recorder:
    """
    Writes down how far a cutover has come.

    :param by: Who acts, for the records.
    :param now: The time of day.
    """

    def __init__(self, lanes: Lanes, *, by: str, now: Callable[[], datetime]) -> None:
        self._lanes, self._by, self._now = lanes, by, now

    @property
    def by(self) -> str:
        """Who acts."""
        return self._by

    @property
    def now(self) -> datetime:
        """The time of day."""
        return self._now()

    def take(
        self,
        view: CutoverView,
        event: CutoverEvent,
        reason: str,
        facts: Mapping[str, str] | None = None,
    ) -> bool:
        """
        Take the next step.

        :returns: Whether it was this one; somebody else may have taken another.
        :raises CutoverRefused: the event cannot happen in this state.
        """
        step = Transition(
            change=view.change.number,
            number=view.step + 1,
            before=view.state,
            event=event,
            after=after(view.state, event),
            reason=reason,
            at=self._now(),
            by=self._by,
            facts=dict(facts or {}),
        )
        counts = self._lanes.home.take_step(step)
        if counts == step:
            message = f"{step.event}: {step.before} to {step.after}. {reason}"
            self._tell(view.change, view.terms, message, step.facts)
        return counts.event is event and counts.by == self._by

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
            what=ChangeSort.CUTOVER,
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
            log.info("Somebody else began change %d of lane %s.", guest.number, home.name)
            return
        # Whoever was late finds its leader closed, and nobody else would ever close the guest.
        close_orphan(home, guest, by=self._by, now=self._now())

    def close(self, view: CutoverView) -> None:
        """Close the change, that of the guests first: without their leader they would stay open."""
        change = view.change
        for stream, lane in self._lanes.guests(view.terms):
            number = self._lanes.change_in(lane, stream, change)
            home = self._lanes.of(stream, lane).home
            if number is not None and home.change_end(number) is None:
                home.end_change(self._end(number, view))
        end = self._end(change.number, view)
        if self._lanes.home.end_change(end) == end:
            self._tell(change, view.terms, f"{end.outcome}. {end.reason}", {})

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
