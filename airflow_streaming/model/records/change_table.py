"""
Shared by every kind of change: a table of states and events, its commands, and a numbered history.

A change's whole course is in its table. An event that is missing in it is refused. The refusal, the
valid commands and the tables in the reference are made of the same rows. Each step is a record
that only one task can create, so that two tasks on one change get one history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Generic, Self, TypeVar

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.model.wire import Record

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[S, E]):
    """
    A command for a change.

    :param events: Its possible events; the state, or the terms, select one.
    :param help: Its effect, for ``--help``.
    :param instead: Events with the same effect in a state in which none of ``events`` is possible.
    :param reached: States in which it was given already, and is in force.
    """

    events: tuple[E, ...]
    help: str
    instead: tuple[E, ...] = ()
    reached: tuple[S, ...] = ()


class ChangeTable(Generic[S, E]):
    """
    The states and events of one kind of change.

    :param name: The name of this kind of change, e.g. ``cutover``.
    :param start: The state before the first step.
    :param rows: Which state follows on which event; an event that is missing is refused.
    :param ends: States in which the change is closed, or about to be.
    :param commands: The operator's commands, by name.
    :param refused: The error of an event, or a command, that is not possible.
    """

    def __init__(
        self,
        name: str,
        start: S,
        rows: Mapping[tuple[S, E], S],
        *,
        ends: frozenset[S],
        commands: Mapping[str, Command[S, E]],
        refused: type[StreamingError],
    ) -> None:
        self.name, self.start, self.ends = name, start, ends
        self.rows: Final = MappingProxyType(dict(rows))
        self.commands: Final = MappingProxyType(dict(commands))
        self._refused = refused

    def allows(self, state: S, event: E) -> bool:
        return (state, event) in self.rows

    def after(self, state: S, event: E) -> S:
        """
        Return the state that follows.

        :raises StreamingError: of the kind's own class; the event cannot happen in this state.
        """
        found = self.rows.get((state, event))
        if found is None:
            allowed = ", ".join(sorted(self.events_in(state))) or "nothing"
            raise self._refused(
                f"The {self.name} in state {state.value!r} cannot take {event.value!r}. Allowed here: "
                f"{allowed}."
            )
        return found

    def events_in(self, state: S) -> list[E]:
        return [event for at, event in self.rows if at is state]

    def state_of(self, history: Sequence[Transition[S, E]]) -> S:
        """Return where a change is; one without a step is where every change starts."""
        return history[-1].after if history else self.start

    def commands_in(self, state: S) -> tuple[str, ...]:
        told = self.commands.items()
        return tuple(
            name for name, one in told if any(self.allows(state, event) for event in one.events)
        )

    def event_of(self, command: str, state: S) -> E | None:
        """Return a command's event in a state; ``None`` where it is not possible."""
        told = self.commands[command]
        events = (*told.events, *told.instead)
        return next((event for event in events if self.allows(state, event)), None)

    def is_in_force(self, command: str, history: Sequence[Transition[S, E]]) -> bool:
        """Tell whether an earlier command has led to the present state."""
        told = self.commands[command]
        was_given = any(step.event in (*told.events, *told.instead) for step in history)
        return was_given and self.state_of(history) in told.reached

    def refusal(self, change: int, stream: str, state: S, command: str) -> StreamingError:
        """Return the error for a command that does not apply where a change stands."""
        given = self.commands[command].events
        places = dict.fromkeys(words(at) for at, event in self.rows if event in given)
        here = ", ".join(self.commands_in(state))
        rest = f"Available: {here}." if here else "No command applies in this state."
        return self._refused(
            f"{self.standing(change, stream, state)}: `{command}` is possible in "
            f"{', '.join(places)}. {rest}"
        )

    def standing(self, change: int, stream: str, state: S) -> str:
        """Return where a change stands, without a full stop."""
        return f"{self.name.capitalize()} {change} of {stream!r} is {words(state)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition(Record, Generic[S, E]):
    """
    A step of a change; ``changes/000004/steps/000002.json``.

    The record is created exclusively, so if two tasks observe two events after step 3 only one
    event is recorded; the other task looks again.

    :param change: Number of the change; of a cutover, in the stream that leads.
    :param number: From 1, without gaps.
    :param facts: Facts for later steps and for people: epochs, backups, verdicts, seconds.
    """

    change: int
    number: int
    before: S
    event: E
    after: S
    reason: str
    at: datetime
    by: str
    facts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def next_of(
        cls,
        history: Sequence[Transition[S, E]],
        table: ChangeTable[S, E],
        event: E,
        *,
        facts: Mapping[str, str] | None = None,
        **told: Any,
    ) -> Self:
        """
        Return the step that follows on a history.

        :param told: ``change``, ``reason``, ``at`` and ``by``.
        :raises StreamingError: the event is not possible there.
        """
        before = table.state_of(history)
        return cls(
            number=len(history) + 1,
            before=before,
            event=event,
            after=table.after(before, event),
            facts=dict(facts or {}),
            **told,
        )


def facts_of(history: Sequence[Transition[Any, Any]]) -> dict[str, str]:
    """Return the facts of all steps together; later steps take precedence."""
    facts: dict[str, str] = {}
    for step in history:
        facts.update(step.facts)
    return facts


def words(name: str) -> str:
    """Return the name of a state, a way or an event as it is written in a sentence."""
    return str(name).replace("_", " ")
