"""
What a person on call can do about a cutover in progress.

A word given here is a record in the home. What follows from it is the task's of the cutover; when
its run has failed, clear the failed task and it goes on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.cli.commands import OK, PROBLEM, Person
from airflow_streaming.cli.table import clock, printable
from airflow_streaming.core.change import Change
from airflow_streaming.core.cutover.transition import state_of
from airflow_streaming.core.lanes import base_of
from airflow_streaming.core.wire import format_time
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.home.home import Home, StreamHome

if TYPE_CHECKING:
    from airflow_streaming.cutover.ports import LaneHands

ABOUT: Final = "look at a cutover in progress, and say what becomes of it"

_SAID: Final = {
    "promote": "Green becomes live.",
    "look-again": "Green is measured once more.",
    "abort": "It is given up: blue stays, or comes back.",
    "roll-back": "It is given up: consumers are led back to blue.",
    "keep": "Green stays: this is the point of no return.",
    "retire": "What blue was is let go; its lane is free.",
}
_NEXT: Final = (
    "The task of the cutover goes on from here. If its run has failed, clear the failed task."
)


def add_arguments(
    parser: argparse.ArgumentParser, add_person: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Declare the verbs and their arguments."""
    parser.add_argument("verb", choices=("status", *_SAID), help="what to do")
    parser.add_argument("stream", metavar="STREAM", help="name of the stream that leads")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_person(parser)


def run(stream: StreamHome, arguments: argparse.Namespace, person: Person) -> int:
    """Do what was asked; return the exit code, 1 when there is no cutover to do it to."""
    home = Home(stream.store).stream(base_of(stream.name))
    change = _newest(home)
    if arguments.verb == "status":
        return _show(home, change, as_json=arguments.json)
    if change is None:
        raise CutoverRefused(f"Stream {home.name!r} leads no cutover.")
    _say(home, change, arguments.verb, person)
    if arguments.json:
        print(json.dumps(_facts(home, change), indent=2))
    else:
        print(f"{_SAID[arguments.verb]} {_NEXT if arguments.verb != 'retire' else ''}".rstrip())
    return OK


def _say(home: StreamHome, change: Change, verb: str, person: Person) -> None:
    from airflow_streaming.cutover.cutting_over import Cutover  # the other commands do without

    engine = Cutover(home.name, _Terminal(Home(home.store), person.name), by=person.name)
    word = getattr(engine, verb.replace("-", "_"))
    word(person.reason, change.number)


class _Terminal:
    """Opens lanes for one who gives a word: he sees what can be seen from here."""

    def __init__(self, home: Home, by: str) -> None:
        self._home, self._by = home, by

    def open(self, stream: str, lane: str) -> LaneHands:
        """Return the hands of one lane; nothing can be launched with them."""
        from airflow_streaming.cutover.ports import LaneHands
        from airflow_streaming.launch.acts import StreamActs
        from airflow_streaming.launch.local import LocalLauncher
        from airflow_streaming.observe.stream import Observer

        home, launcher = self._home.stream(lane), LocalLauncher()
        return LaneHands(
            home=home,
            keeper=None,
            acts=StreamActs(home, launcher, by=self._by),
            observer=Observer(home, launcher),
        )


def _newest(home: StreamHome) -> Change | None:
    led = [one for one in home.changes() if home.leads(one)]
    return led[-1] if led else None


def _show(home: StreamHome, change: Change | None, *, as_json: bool) -> int:
    if change is None:
        message = f"Stream {home.name!r} has led no cutover."
        print(json.dumps({"error": message}, indent=2) if as_json else message)
        return PROBLEM
    print(
        json.dumps(_facts(home, change), indent=2) if as_json else "\n".join(_lines(home, change))
    )
    return OK


def _facts(home: StreamHome, change: Change) -> dict[str, Any]:
    history, end = home.steps(change.number), home.change_end(change.number)
    return {
        "stream": home.name,
        "change": change.number,
        "state": state_of(history).value,
        "outcome": None if end is None else end.outcome.value,
        "steps": [
            {
                "number": step.number,
                "before": step.before.value,
                "event": step.event.value,
                "after": step.after.value,
                "at": format_time(step.at),
                "by": step.by,
                "reason": step.reason,
                "facts": dict(step.facts),
            }
            for step in history
        ],
    }


def _lines(home: StreamHome, change: Change) -> list[str]:
    history, end = home.steps(change.number), home.change_end(change.number)
    state = f"{end.outcome} since {clock(end.at)}" if end is not None else "in progress"
    lines = [
        f"Change {change.number} of {home.name}: {change.reason} {state_of(history)}, {state}.",
        f"  {clock(change.at)}  planned       ({change.by})",
    ]
    lines += [
        f"  {clock(step.at)}  {step.after.value:13} {step.event.value}: {step.reason} ({step.by})"
        for step in history
    ]
    return [printable(line) for line in lines]
