"""
The engine of all changes: read the records, decide, act, record one fact, repeat.

A kind of change brings its table (``model.records.change_table``), a view, a pure function from
view to move, and actions. The loop, the recording of steps, operators' commands and the reported
progress are here and the same for all.

All methods may be called again, by any task and at any time. A process that dies between two steps
leaves enough records for the next one, and two that work at once do no harm: each one-time step is
an exclusive create, and the loser looks again. A step is recorded only after all of its work is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.model.records.change_table import ChangeTable, E, S, Transition, facts_of
from airflow_streaming.model.records.control import Change

TAKE: Final = "take"
"""The move that takes the step of an event; all other moves are a kind's own."""
PASSIVE: Final = frozenset({"wait", "ask", "nothing"})
"""Moves with nothing to do now: look again later, an operator must act, the change is closed."""
_FOR_OPERATOR: Final = frozenset({"ask", "kill"})
_TRIES: Final = 20

T = TypeVar("T", bound=Transition[Any, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Generic[E]):
    """
    A move.

    :param reason: Why, in words; for a wait, the awaited event.
    :param event: Of a move that takes a step.
    :param facts: Of a move that takes a step: the step's facts.
    """

    do: StrEnum
    reason: str
    event: E | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_passive(self) -> bool:
        """Tell whether there is nothing to do now."""
        return self.do in PASSIVE


class View(Protocol[S, E]):
    """A change as observed: its history was the same before and after the look."""

    @property
    def change(self) -> Change:
        """Return the record that opened it."""

    @property
    def history(self) -> Sequence[Transition[S, E]]:
        """Return its steps."""

    @property
    def state(self) -> S:
        """Return where it is."""

    @property
    def is_closed(self) -> bool:
        """Tell whether the change has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange(Generic[S, E]):
    """The state of a change by its records alone; enough for most commands."""

    change: Change
    history: Sequence[Transition[S, E]]
    table: ChangeTable[S, E]
    is_closed: bool = False

    @property
    def state(self) -> S:
        """Return where it is."""
        return self.table.state_of(self.history)


V = TypeVar("V", bound=View[Any, Any])
M = TypeVar("M", bound=Move[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Generic[S]):
    """
    The progress of a change.

    :param is_there: The requested state, or an end, is reached; the caller is done.
    :param waiting: Otherwise: the awaited event, in a sentence. Look again after some seconds, with
        an observer that has this one's memory (``Observer.memory``).
    :param needs_person: It waits for an operator's command, or for an operator's check of a driver
        on a host that cannot be seen.
    :param facts: Facts of all steps together; later ones win.
    """

    change: int
    state: S
    reason: str
    is_there: bool
    waiting: str = ""
    needs_person: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


def progress_of(
    view: View[S, E], *, is_there: bool = False, waiting: str = "", needs_person: bool = False
) -> Progress[S]:
    return Progress(
        change=view.change.number,
        state=view.state,
        reason=view.history[-1].reason if view.history else view.change.reason,
        is_there=is_there,
        waiting=waiting,
        needs_person=needs_person,
        facts=facts_of(view.history),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """
    How often a change is observed again while no output is written.

    :param at_most: Seconds; then the caller gets the awaited event.
    :param clock: Monotonic seconds.
    """

    at_most: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    every: float = 0.1
    patient: float = 1.0
    """Seconds between two looks without progress for ``patient_after``."""
    patient_after: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(Generic[V, M]):
    """
    Makes the moves of one change.

    :param look: Reads the records and observes the streams.
    :param decide: Returns the next move of a view; a pure function.
    :param act: Makes one move; returns the reason to wait, or ``None`` if it was made.
    :param most_moves: In one call; the whole way there and back needs a fifth of them.
    """

    look: Callable[[], V]
    decide: Callable[[V], M]
    act: Callable[[V, M], str | None]
    most_moves: int = 200

    def advance(
        self,
        is_there: Callable[[V, M], bool],
        *,
        pace: Pace | None = None,
        is_in_haste: Callable[[V], bool] = lambda _: False,
        may: Callable[[V, M], str | None] = lambda _, __: None,
    ) -> Progress[Any]:
        """
        Make all moves that are possible now.

        :param is_there: The caller's end is reached.
        :param is_in_haste: Look again at once while waiting, at the given pace.
        :param may: Why this caller does not make a move; ``None`` if it does.
        """
        moves, began = 0, 0.0 if pace is None else pace.clock()
        newest = began
        while True:
            view = self.look()
            move = self.decide(view)
            if is_there(view, move):
                return progress_of(view, is_there=True)
            waiting = move.reason if move.is_passive else may(view, move) or self.act(view, move)
            moves += waiting is None
            if moves > self.most_moves:
                waiting = f"{self.most_moves} moves came to nothing; the last: {move.reason}"
            now = 0.0 if pace is None else pace.clock()
            if waiting is None:
                newest = now
                continue
            needs_person = move.do in _FOR_OPERATOR
            is_over = needs_person or moves > self.most_moves
            if pace is None or is_over or now - began >= pace.at_most or not is_in_haste(view):
                return progress_of(view, waiting=waiting, needs_person=needs_person)
            pace.sleep(pace.every if now - newest < pace.patient_after else pace.patient)


class Recorder(Generic[S, E, T]):
    """Writes down how far a change has come; a kind says where, and tells the timeline."""

    table: ChangeTable[S, E]
    transition: type[T]

    def __init__(self, *, by: str, now: Callable[[], datetime]) -> None:
        self._by, self._now = by, now

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
        view: View[S, E],
        event: E,
        reason: str,
        facts: Mapping[str, str] | None = None,
    ) -> bool:
        """
        Take the next step.

        :returns: Whether it was this one; another task may have taken another.
        :raises StreamingError: the event cannot happen in this state.
        """
        step = self.transition.next_of(
            view.history,
            self.table,
            event,
            change=view.change.number,
            reason=reason,
            at=self._now(),
            by=self._by,
            facts=facts,
        )
        counts = self.record(step)
        if counts == step:
            self.tell_step(view, step)
        return counts.event is event and counts.by == self._by

    def record(self, step: T) -> T:
        """Create the record of a step; return the effective record of its number."""
        raise NotImplementedError

    def tell_step(self, view: Any, step: T) -> None:
        """Add a step that was taken to timeline and task log."""
        raise NotImplementedError

    def give(
        self,
        command: str,
        look: Callable[[], V],
        reason: str,
        *,
        meaning: Callable[[V], E | None] | None = None,
        check: Callable[[V, E], None] = lambda _, __: None,
        facts: Callable[[V], Mapping[str, str]] = lambda _: {},
    ) -> None:
        """
        Take the step of an operator's command; repeating a command is not an error.

        After a simultaneous step of another task, the command is judged again.

        :param meaning: Its event, if the state alone does not determine it.
        :param check: Raises further refusals beside the table.
        :raises StreamingError: Not possible in this state; the message lists possible commands.
        """
        for _ in range(_TRIES):
            view = look()
            if self.table.is_in_force(command, view.history):
                return
            event = self.table.event_of(command, view.state)
            if event is not None and meaning is not None:
                event = meaning(view)
            if event is None or not self.table.allows(view.state, event):
                change = view.change
                raise self.table.refusal(change.number, change.stream, view.state, command)
            check(view, event)
            if self.take(view, event, reason, facts(view)):
                return
        raise HomeUnavailable(
            f"{_TRIES} times another task took a step before the command {command!r} was recorded. Give "
            "it again."
        )


def agreed(
    history: Callable[[], Sequence[Any]], look: Callable[[Sequence[Any]], V], where: str
) -> V:
    """
    Look between two readings of the history until both agree.

    So no move is decided from a state and a snapshot of the stream that never were at the same time.

    :param where: Names the change in the message.
    :raises HomeUnavailable: the steps changed during every look.
    """
    for _ in range(_TRIES):
        before = history()
        view = look(before)
        if list(history()) == list(before):
            return view
    raise HomeUnavailable(
        f"The steps of {where} changed during {_TRIES} reads in a row. Try again."
    )
