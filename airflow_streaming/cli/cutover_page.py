"""A cutover as text and as JSON: where it stands, what can be said of it, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from airflow_streaming.cli.table import clock, printable
from airflow_streaming.core.change import Change, ChangeEnd
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState
from airflow_streaming.core.cutover.terms import CutoverTerms
from airflow_streaming.core.cutover.transition import Transition, state_of
from airflow_streaming.core.cutover.verbs import verbs_in, words
from airflow_streaming.core.times import format_time
from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.lanes import live_lane

T = TypeVar("T")

_FOR_A_WORD: Final = frozenset({CutoverState.READY, CutoverState.HELD})


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverPage:
    """
    What a home tells of one cutover.

    :param terms: ``None`` when they cannot be read.
    :param live: Name of the lane that is live; empty when it cannot be told.
    :param problems: What is wrong with the records, a sentence each.
    """

    change: Change
    history: tuple[Transition, ...]
    end: ChangeEnd | None
    terms: CutoverTerms | None
    live: str
    problems: tuple[str, ...]

    @property
    def state(self) -> CutoverState:
        """Return where it stands."""
        return state_of(self.history)

    @property
    def since(self) -> datetime:
        """Return since when."""
        return self.history[-1].at if self.history else self.change.at

    @property
    def deadline_at(self) -> datetime | None:
        """Return when it is given up if nothing comes of it; ``None`` for never."""
        if self.end is not None or self.terms is None:
            return None
        deadline = self.terms.deadline(self.state)
        return None if deadline is None else self.since + deadline

    @property
    def verbs(self) -> tuple[str, ...]:
        """Return what a person can say of it."""
        return verbs_in(self.state)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for ``--json``."""
        leader, until = None if self.terms is None else self.terms.leader, self.deadline_at
        return {
            "stream": self.change.stream,
            "change": self.change.number,
            "way": None if self.terms is None else self.terms.way.value,
            "blue": None if leader is None else leader.blue,
            "green": None if leader is None else leader.green,
            "live": self.live or None,
            "state": self.state.value,
            "since": format_time(self.since),
            "deadline_at": None if until is None else format_time(until),
            "verbs": list(self.verbs),
            "problems": list(self.problems),
            "outcome": None if self.end is None else self.end.outcome.value,
            "steps": [_step(step) for step in self.history],
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines for a terminal: where it stands, what is wrong, and every step."""
        yield printable(self._first())
        yield from (printable(f"  PROBLEM: {problem}") for problem in self.problems)
        begun, by = self.change, self.change.by
        yield printable(f"  {clock(begun.at)}  planned       {begun.reason} ({by})")
        for step in self.history:
            # The same task takes many steps in a row, and its name is long.
            who, by = "" if step.by == by else f" ({step.by})", step.by
            told = f"{step.after.value:13} {step.event.value}: {step.reason}{who}"
            yield printable(f"  {clock(step.at)}  {told}")

    def _first(self) -> str:
        parts = [f"{words(self.state)} since {clock(self.since)}"]
        if self.end is not None:
            parts.append("it has come to its end")
        elif self.deadline_at is not None:
            waits = "waits for a word" if self.state in _FOR_A_WORD else "may last"
            parts.append(f"{waits} until {clock(self.deadline_at)}")
        if self.verbs:
            parts.append(f"you can: {', '.join(self.verbs)}")
        which = f"Cutover {self.change.number} of {self.change.stream}{self._way()}"
        return f"{which}: {'; '.join(parts)}."

    def _way(self) -> str:
        if self.terms is None:
            return ""
        lanes = [f"blue {pair.blue} -> green {pair.green}" for pair in self.terms.pairs]
        return f" ({', '.join([self.terms.way.value, *lanes])})"


def page_of(home: StreamHome, change: Change) -> CutoverPage:
    """
    Return what a home tells of a cutover.

    :raises RecordError: its steps or its end cannot be read.
    """
    problems: list[str] = []
    history = tuple(home.steps(change.number))
    terms = _tried(lambda: home.cutover_terms(change), problems)
    if terms is not None and history and history[0].event is CutoverEvent.BEGIN:
        problems += _guests(home, change, terms)
    return CutoverPage(
        change=change,
        history=history,
        end=home.change_end(change.number),
        terms=terms,
        live=_tried(lambda: live_lane(Home(home.store), home.name), problems) or "",
        problems=tuple(problems),
    )


def _tried(read: Callable[[], T], problems: list[str]) -> T | None:
    try:
        return read()
    except RecordError as err:
        problems.append(str(err))
        return None


def _guests(home: StreamHome, change: Change, terms: CutoverTerms) -> Iterator[str]:
    """Tell of every lane that should know of the cutover and does not."""
    name = f"{change.stream}/{change.number}"
    lanes = {lane for pair in terms.pairs for lane in (pair.blue, pair.green)} - {home.name}
    for lane in sorted(lanes):
        try:
            if not any(one.leader == name for one in home.beside(lane).changes()):
                yield (
                    f"Lane {lane!r} has no record of this cutover among its changes, so others may "
                    "change it meanwhile. Put back what was there."
                )
        except RecordError as err:
            yield str(err)


def _step(step: Transition) -> dict[str, Any]:
    return {
        "number": step.number,
        "before": step.before.value,
        "event": step.event.value,
        "after": step.after.value,
        "at": format_time(step.at),
        "by": step.by,
        "reason": step.reason,
        "facts": dict(step.facts),
    }
