"""
What a person on call can do about a cutover in progress.

A word given here is a record in the home. What follows from it is the task's of the cutover; when
its run has failed, clear the failed task and it goes on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from airflow_streaming.cli.argument_types import place
from airflow_streaming.cli.cutover_found import led_by
from airflow_streaming.cli.cutover_page import CutoverPage, page_of
from airflow_streaming.cli.person import OK, PROBLEM, Person
from airflow_streaming.core.change import Change
from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.transition import state_of
from airflow_streaming.core.cutover.verbs import VERBS, outcome, refusal, verbs_in
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.lanes import stream_of

if TYPE_CHECKING:
    from airflow_streaming.core.cutover.terms import Pair
    from airflow_streaming.core.deployment import Deployment
    from airflow_streaming.cutover.ports import LaneHands, Retire
    from airflow_streaming.cutover.progress import Progress

_STATUS: Final = "show where it stands, and what can be said; exit code 1 when there is none"
_NEXT: Final = (
    "The task of the cutover goes on from here. If its run has failed, clear the failed task."
)


def add_arguments(
    parser: argparse.ArgumentParser, add_person: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Declare the verbs and their arguments."""
    kinds = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, text in {"status": _STATUS, **VERBS}.items():
        verb = kinds.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        about = "folder or URI with the records of all streams"
        verb.add_argument("--home", default=argparse.SUPPRESS, metavar="URI", help=about)
        verb.add_argument("stream", metavar="STREAM", help="name of the stream that leads")
        verb.add_argument("--json", action="store_true", help="print JSON")
        add_person(verb)
        if name == "retire":
            _add_backup(verb)


def _add_backup(verb: argparse.ArgumentParser) -> None:
    where = verb.add_mutually_exclusive_group()
    where.add_argument(
        "--to", type=place, metavar="STORE", help="the backup store (default: HOME/_backups)"
    )
    where.add_argument(
        "--no-backup", action="store_true", help="let blue go without a final backup"
    )


def home_of(home: Home, name: str) -> StreamHome:
    """
    Return the records of the stream whose cutover is meant.

    :param name: Of the stream, or of either lane; the green one need not be there yet.
    """
    return home.stream(stream_of(name))


def run(stream: StreamHome, arguments: argparse.Namespace, person: Person) -> int:
    """Do what was asked; return the exit code, 1 when there is no cutover to do it to."""
    change = led_by(stream)
    if arguments.verb == "status":
        return _show(stream, change, as_json=arguments.json)
    if change is None:
        raise CutoverRefused(f"Stream {stream.name!r} leads no cutover.")
    retire = _final_backup(stream, arguments, person) if arguments.verb == "retire" else None
    progress = _say(stream, change, arguments.verb, person, retire)
    if arguments.json:
        print(json.dumps(page_of(stream, change).to_dict(), indent=2))
    else:
        print(_told(progress))
    return OK


def _say(
    home: StreamHome, change: Change, verb: str, person: Person, retire: Retire | None
) -> Progress:
    from airflow_streaming.cutover.cutting_over import Cutover  # the other commands do without

    lanes = _Terminal(Home(home.store), person.name)
    engine = Cutover(home.name, lanes, by=person.name, retire=retire)
    word: Callable[[str, int], Progress] = getattr(engine, verb.replace("-", "_"))
    try:
        return word(person.reason, change.number)
    except CutoverRefused as err:
        state = state_of(home.steps(change.number))
        if verb in verbs_in(state):
            raise
        raise CutoverRefused(refusal(change.number, home.name, state, verb)) from err


def _told(progress: Progress) -> str:
    told = outcome(progress.state)
    if progress.state is not CutoverState.RETIRED:
        return told if progress.is_there else f"{told} {_NEXT}"
    return " ".join([told, *_backups(progress.facts)])


def _backups(facts: Mapping[str, str]) -> list[str]:
    """Tell which final backups were taken."""
    told = {
        name.removesuffix(".backup"): i for name, i in facts.items() if name.endswith(".backup")
    }
    if not told:
        return ["No final backup was taken."]
    return [
        f"Final backup of {stream}: {backup}." if backup else f"{stream} had nothing to back up."
        for stream, backup in told.items()
    ]


def _final_backup(home: StreamHome, arguments: argparse.Namespace, person: Person) -> Retire | None:
    """Return who takes the backup with which blue is let go; ``None`` to go without."""
    if arguments.no_backup:
        return None
    from airflow_streaming.checkpoint.ours import Asked, backup_before, default_store
    from airflow_streaming.checkpoint.store import open_backup_store
    from airflow_streaming.cli.checkpoint.told import Told
    from airflow_streaming.core.checkpoint.backup import Origin

    uri = arguments.to or default_store(home.store.uri)

    def take(change: Change, pair: Pair, blue: Deployment) -> str:
        note = f"Final backup of deployment {blue.number}, change {change.number}: {person.reason}"
        asked = Asked(origin=Origin.BEFORE_UPGRADE, by=person.name, note=note, progress=Told())
        store = open_backup_store(uri, create=True)
        return backup_before(home.beside(pair.blue), store, asked)

    return take


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


def _show(home: StreamHome, change: Change | None, *, as_json: bool) -> int:
    if change is None:
        message = f"Stream {home.name!r} has led no cutover."
        print(json.dumps({"error": message}, indent=2) if as_json else message)
        return PROBLEM
    page: CutoverPage = page_of(home, change)
    print(json.dumps(page.to_dict(), indent=2) if as_json else "\n".join(page.lines()))
    return PROBLEM if page.problems else OK
