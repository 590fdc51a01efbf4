"""
``airflow-streaming cutover``: the status of a cutover, and commands to it.

A command is a record in the home, and the task of the cutover acts on it. If its run has failed, clear the failed
task; it continues.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow_streaming.changes.cutover.plan import outcome
from airflow_streaming.changes.cutover.waits import waits_for
from airflow_streaming.cli.asked_clusters import listed_launcher
from airflow_streaming.cli.common import OK, PROBLEM, Person, add_commands, place
from airflow_streaming.cli.output import ConsoleProgress, show_json, show_lines
from airflow_streaming.exceptions import CutoverRefused, RecordError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane, stream_of
from airflow_streaming.model.codec import format_time
from airflow_streaming.model.names import Color, color_of, other_lane
from airflow_streaming.model.records.change_table import words
from airflow_streaming.model.records.control import Change, ChangeEnd, ChangeKind
from airflow_streaming.model.records.cutover import CutoverTerms
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverCommand,
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from airflow_streaming.reports.terminal import clock
from airflow_streaming.services.changes import command_cutover, final_backup
from airflow_streaming.services.cutover_lag import BESIDE_BLUE, read_lags
from airflow_streaming.services.status_reader import failing

if TYPE_CHECKING:
    from airflow_streaming.changes.cutover.engine import CutoverProgress as Progress
    from airflow_streaming.changes.cutover.lanes import Retire
    from airflow_streaming.changes.judging.lag import QueryLag
    from airflow_streaming.model.records.cutover import Pair
    from airflow_streaming.model.records.deployment import Deployment

T = TypeVar("T")
_WAITS_FOR_COMMAND: Final = frozenset({CutoverState.READY, CutoverState.HELD})
_STATUS: Final = "show its state and the commands it accepts; exit code 1 without a cutover"
_NEXT: Final = (
    "The task of the cutover continues from here. If its run has failed, clear the failed task."
)


def led_by(home: StreamHome) -> Change | None:
    """
    Return the newest cutover that a stream leads; ``None`` when it has led none.

    :raises CutoverRefused: the stream moves with another one, which leads.
    """
    cutovers = [one for one in home.changes() if one.what is ChangeKind.CUTOVER]
    led = [one for one in cutovers if home.leads(one)]
    newest = cutovers[-1] if cutovers else None
    if newest is None or home.leads(newest):
        return newest
    if led and home.change_end(newest.number) is not None:
        return led[-1]
    leader, _, number = newest.leader.rpartition("/")
    raise CutoverRefused(
        f"Stream {home.name!r} moves with cutover {number} of {leader!r}. Use the command on {leader!r}."
    )


def is_open_in(lane: StreamHome) -> tuple[int, str, CutoverState] | None:
    """Return number, leading stream and state of the cutover that is open in a lane."""
    change = lane.unfinished_change()
    if change is None or change.what is not ChangeKind.CUTOVER:
        return None
    leader, number = lane.leader_of(change)
    return number, leader.name, CUTOVER.state_of(leader.steps(number))


def what_a_stop_does(lane: StreamHome) -> str:
    """Return the effect of a stop on the open cutover; empty without one."""
    found = is_open_in(lane)
    if found is None or not CUTOVER.allows(found[2], CutoverEvent.STOP_WANTED):
        return ""
    return (
        f"{CUTOVER.standing(*found)}: the stop gives it up. Its task moves consumers back to blue and then "
        "stops blue."
    )


def why_there_is_none(lane: StreamHome) -> str:
    """Return why a green lane has no deployment; empty when the stream does not exist."""
    if color_of(lane.name) is not Color.GREEN:
        return ""
    base = lane.beside(other_lane(lane.name))
    if base.newest_deployment() is None:
        return ""
    found = is_open_in(base)
    why = f"{CUTOVER.standing(*found)}." if found else "It was never cut over."
    return f"The green lane of stream {base.name!r} has no deployment yet. {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverPage:
    """
    The records of one cutover for its page.

    :param terms: ``None`` when they cannot be read.
    :param live: Name of the live lane; empty when it is unknown.
    :param problems: Problems of the records, a sentence each.
    :param failing: Failures of green lanes, a text each.
    :param lags: Distances of the queries of green lanes to blue, by green lane, until the switch.
    """

    change: Change
    history: tuple[CutoverTransition, ...]
    end: ChangeEnd | None
    terms: CutoverTerms | None
    live: str
    problems: tuple[str, ...]
    failing: tuple[str, ...] = ()
    lags: Mapping[str, tuple[QueryLag, ...]] = field(default_factory=dict)

    @property
    def state(self) -> CutoverState:
        return CUTOVER.state_of(self.history)

    @property
    def since(self) -> datetime:
        """Return the time of the newest state."""
        return self.history[-1].at if self.history else self.change.at

    @property
    def deadline_at(self) -> datetime | None:
        """Return the time at which the cutover gives up unless it moves on; ``None`` for never."""
        if self.end is not None or self.terms is None:
            return None
        deadline = self.terms.deadline(self.state)
        return None if deadline is None else self.since + deadline

    @property
    def verbs(self) -> tuple[str, ...]:
        """Return the commands that the state accepts."""
        return CUTOVER.commands_in(self.state)

    @property
    def waits_for(self) -> str:
        """Return the event that the cutover waits for; empty after its end."""
        return "" if self.end is not None else waits_for(self.history, self.terms)

    def to_dict(self) -> dict[str, Any]:
        """Return the page for ``--json``."""
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
            "waits_for": self.waits_for or None,
            "verbs": list(self.verbs),
            "problems": list(self.problems),
            "failing": list(self.failing),
            "lags": {lane: [lag.to_dict() for lag in lags] for lane, lags in self.lags.items()},
            "outcome": None if self.end is None else self.end.outcome.value,
            "steps": [_step(step) for step in self.history],
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines for a terminal: the state, the problems, the distance to blue and every step."""
        yield self._first()
        if self.waits_for:
            yield f"  Waits for {self.waits_for}."
        yield from (f"  PROBLEM: {problem}" for problem in self.problems)
        yield from (f"  FAILING: {text}" for text in self.failing)
        for lane, lags in self.lags.items():
            texts = [lag.text() for lag in lags] or ["its driver reports no query yet"]
            yield from (f"  {lane}: {text}" for text in texts)
        begun, by = self.change, self.change.by
        yield f"  {clock(begun.at)}  planned       {begun.reason} ({by})"
        for step in self.history:
            # The same task takes many steps in a row, and its name is long.
            who, by = "" if step.by == by else f" ({step.by})", step.by
            message = f"{step.after.value:13} {step.event.value}: {step.reason}{who}"
            yield f"  {clock(step.at)}  {message}"

    def _first(self) -> str:
        parts = [f"{words(self.state)} since {clock(self.since)}"]
        if self.end is not None:
            parts.append("it has come to its end")
        elif self.deadline_at is not None:
            waits = "waits for a command" if self.state in _WAITS_FOR_COMMAND else "may last"
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
    Read the page of a cutover.

    :raises RecordError: its steps or its end cannot be read.
    """
    problems: list[str] = []
    history = tuple(home.steps(change.number))
    terms = _tried(lambda: home.cutover_terms(change), problems)
    if terms is not None and history and history[0].event is CutoverEvent.BEGIN:
        problems += _guests(home, change, terms)
    end = home.change_end(change.number)
    greens = [pair.green for pair in terms.pairs] if terms is not None and end is None else []
    texts = [_tried(partial(failing, home.beside(green)), problems) for green in greens]
    beside = end is None and CUTOVER.state_of(history) in BESIDE_BLUE
    pairs = terms.pairs if terms is not None and beside else ()
    lags = {pair.green: _tried(partial(read_lags, home, pair), problems) for pair in pairs}
    return CutoverPage(
        change=change,
        history=history,
        end=end,
        failing=tuple(text for text in texts if text),
        lags={lane: found for lane, found in lags.items() if found is not None},
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
    """Yield a problem for each lane that lacks its record of the cutover."""
    name = f"{change.stream}/{change.number}"
    lanes = {lane for pair in terms.pairs for lane in (pair.blue, pair.green)} - {home.name}
    for lane in sorted(lanes):
        try:
            if not any(one.leader == name for one in home.beside(lane).changes()):
                yield (
                    f"Lane {lane!r} has no record of this cutover among its changes, so others may "
                    "change it meanwhile. Restore the record."
                )
        except RecordError as err:
            yield str(err)


def _step(step: CutoverTransition) -> dict[str, Any]:
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = add_commands(parser, CUTOVER, status=_STATUS, whose="name of the stream that leads")
    _add_backup(verbs["retire"])


def _add_backup(verb: argparse.ArgumentParser) -> None:
    where = verb.add_mutually_exclusive_group()
    where.add_argument(
        "--store", type=place, metavar="STORE", help="backup store (default: HOME/_backups)"
    )
    where.add_argument(
        "--no-backup", action="store_true", help="retire blue without a final backup"
    )


def home_of(home: Home, name: str) -> StreamHome:
    """
    Return the records of the stream of a cutover.

    :param name: Of the stream or of either lane; the green lane may be missing.
    """
    return home.stream(stream_of(name))


def run(stream: StreamHome, arguments: argparse.Namespace, person: Person) -> int:
    """Run the verb and return the exit code."""
    change = led_by(stream)
    if arguments.verb == "status":
        return _show(stream, change, as_json=arguments.json)
    if change is None:
        raise CutoverRefused(f"Stream {stream.name!r} leads no cutover.")
    retire = _final_backup(stream, arguments, person) if arguments.verb == "retire" else None
    progress = command_cutover(
        *(stream, change.number, CutoverCommand(arguments.verb)),
        by=person.name,
        reason=person.reason,
        launcher=listed_launcher(),
        retire=retire,
    )
    if arguments.json:
        show_json(page_of(stream, change).to_dict())
    else:
        show_lines([_told(progress)])
    return OK


def _told(progress: Progress) -> str:
    told = outcome(progress.state)
    if progress.state is not CutoverState.RETIRED:
        return told if progress.is_there else f"{told} {_NEXT}"
    return " ".join([told, *_backups(progress.facts)])


def _backups(facts: Mapping[str, str]) -> list[str]:
    """Return a sentence for each final backup."""
    values = {
        name.removesuffix(".backup"): i for name, i in facts.items() if name.endswith(".backup")
    }
    if not values:
        return ["No final backup was taken."]
    return [
        f"Final backup of {stream}: {backup}." if backup else f"{stream} had nothing to back up."
        for stream, backup in values.items()
    ]


def _final_backup(home: StreamHome, arguments: argparse.Namespace, person: Person) -> Retire | None:
    """Return the function that takes the final backup of blue; ``None`` with ``--no-backup``."""
    if arguments.no_backup:
        return None
    from airflow_streaming.checkpoints.backup.stream_backup import default_store
    from airflow_streaming.checkpoints.vault.store import open_backup_store

    uri = arguments.store or default_store(home.store.uri)

    def take(change: Change, pair: Pair, blue: Deployment) -> str:
        return final_backup(
            *(home, open_backup_store(uri, create=True, home=home.store), change, pair, blue),
            by=person.name,
            reason=person.reason,
            progress=ConsoleProgress(),
        )

    return take


def _show(home: StreamHome, change: Change | None, *, as_json: bool) -> int:
    if change is None:
        raise CutoverRefused(f"Stream {home.name!r} has led no cutover.")
    page: CutoverPage = page_of(home, change)
    if as_json:
        show_json(page.to_dict())
    else:
        show_lines(page.lines())
    return PROBLEM if page.problems else OK
