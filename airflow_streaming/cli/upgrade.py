"""
What a person on call can do about an upgrade in progress.

A word given here is a record in the home, and what follows from it is done at once as far as it
needs nothing but the home. The rest is the task's of the upgrade; when its run has failed, clear the
failed task and it goes on. Where no run is left, ``--here`` does the rest from this host, but for
starting a driver, which the task that keeps the stream alive does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.cli.argument_types import place
from airflow_streaming.cli.person import OK, PROBLEM, Person
from airflow_streaming.cli.table import clock, printable
from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.times import format_time
from airflow_streaming.core.upgrade.deciding import way_out
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.state import newest_stage
from airflow_streaming.exceptions import SpecError, StreamingError, UpgradeRefused
from airflow_streaming.home.home import StreamHome

if TYPE_CHECKING:
    from airflow_streaming.upgrade.carrying_through import CarryingThrough

MOST_WAITING_S: Final = 600.0
"""How long a command waits for a driver to stop, before it gives the terminal back."""

_LOOK_S: Final = 1.0

_SAID: Final = {
    "keep": "{deployment} stays: this is the point of no return.",
    "roll-back": "{deployment} is taken back, and the deployment before it returns.",
    "abort": "It is given up; the stream stays as it was.",
    "leave": "Nothing is put back, and the stream is wanted stopped. Put checkpoint and sinks in order "
    "before you start it.",
}
_CARRIED: Final = ("roll-back", "abort")
_NEXT: Final = (
    "The task of the upgrade goes on from here. If its run has failed, clear the failed task; the "
    "next upgrade of the stream finishes it too. If no run is left: the same command with --here."
)
_AGAIN: Final = "Give the same command again to go on."
_CLOSED: Final = "The upgrade is closed."


def add_arguments(
    parser: argparse.ArgumentParser, add_person: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Declare the verbs and their arguments."""
    parser.add_argument("verb", choices=("status", *_SAID), help="what to do")
    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--here",
        action="store_true",
        help="carry it through from this host, when no run of the upgrade dag is left to",
    )
    parser.add_argument(
        "--store",
        type=place,
        metavar="URI",
        help="where the upgrade's backups lie, for --here (default: HOME/_backups)",
    )
    add_person(parser)
    parser.set_defaults(unsaid=parser.get_default("reason"))


def run(stream: StreamHome, arguments: argparse.Namespace, person: Person) -> int:
    """Do what was asked; return the exit code, 1 when there is no upgrade to do it to."""
    change = _newest(stream)
    if arguments.verb == "status":
        return _show(stream, change, as_json=arguments.json)
    if change is None or stream.change_end(change.number) is not None:
        raise UpgradeRefused(f"Stream {stream.name!r} has no upgrade in progress.")
    through = _through(stream, change, arguments, person) if arguments.here else None
    told = "It had come to its end already."
    if not newest_stage(stream.stages(change.number)).is_end:
        _say(stream, change, arguments, person)
        told = _SAID[arguments.verb].format(deployment=f"Deployment {change.deployment}")
    rest = _finish(stream, change, person)
    if rest and through is not None:
        rest = _carry(through, quietly=arguments.json)
    if arguments.json:
        print(json.dumps(_facts(stream, change), indent=2))
    else:
        more = _NEXT if through is None else _AGAIN
        print(f"{told} {f'{rest} {more}' if rest else _CLOSED}")
    return PROBLEM if rest and through is not None else OK


def _through(
    stream: StreamHome, change: Change, arguments: argparse.Namespace, person: Person
) -> CarryingThrough:
    """
    Return who carries an upgrade through from this host.

    :raises UpgradeRefused: only the dag can; nothing was said or done.
    :raises SpecError: there is nothing to be carried through for this word.
    """
    if arguments.verb not in _CARRIED:
        raise SpecError(f"--here goes with {' and '.join(_CARRIED)}, not with {arguments.verb}.")
    from airflow_streaming.checkpoint.ours import default_store
    from airflow_streaming.checkpoint.store import open_backup_store
    from airflow_streaming.cli.checkpoint.told import Told
    from airflow_streaming.launch.local import LocalLauncher
    from airflow_streaming.upgrade.carrying_through import CarryingThrough
    from airflow_streaming.upgrade.words import now_in_utc

    store = open_backup_store(arguments.store or default_store(stream.store.uri))
    through = CarryingThrough(
        *(stream, LocalLauncher(), store, change), by=person.name, now=now_in_utc, progress=Told()
    )
    if arguments.verb == "roll-back":
        through.check()
    return through


def _carry(through: CarryingThrough, *, quietly: bool) -> str:
    """Go on until it is closed; return what is still waited for, empty for nothing."""
    until, said = time.monotonic() + MOST_WAITING_S, ""
    while True:
        progress = through.go_on()
        if progress.is_there:
            return ""
        if progress.needs_person or time.monotonic() >= until:
            return progress.waiting
        if progress.waiting != said and not quietly:
            print(f"Waiting: {progress.waiting}", file=sys.stderr, flush=True)
        said = progress.waiting
        time.sleep(_LOOK_S)


def _say(stream: StreamHome, change: Change, arguments: argparse.Namespace, person: Person) -> None:
    from airflow_streaming.upgrade.words import Words  # the other commands do without all of it

    if arguments.verb == "leave" and person.reason == arguments.unsaid:
        raise SpecError("Say why nothing is put back, for whoever starts the stream: --reason TEXT")
    words = Words(stream, by=person.name)
    say = {
        "keep": words.keep,
        "roll-back": words.roll_back,
        "abort": words.abort,
        "leave": words.leave,
    }
    say[arguments.verb](change, person.reason)


def _finish(stream: StreamHome, change: Change, person: Person) -> str:
    """Do what needs nothing but the home; return what is still to be done, empty for nothing."""
    from airflow_streaming.upgrade.ending import finish
    from airflow_streaming.upgrade.words import now_in_utc

    try:
        from airflow_streaming.launch.local import LocalLauncher
    except ImportError as err:
        return f"Processes cannot be looked at from here ({err})."
    try:
        return finish(stream, LocalLauncher(), change, by=person.name, now=now_in_utc)
    except StreamingError as err:
        # The word stands all the same.
        return str(err)


def _newest(stream: StreamHome) -> Change | None:
    upgrades = [one for one in stream.changes() if one.what is ChangeSort.UPGRADE]
    return upgrades[-1] if upgrades else None


def _show(stream: StreamHome, change: Change | None, *, as_json: bool) -> int:
    if change is None:
        message = f"Stream {stream.name!r} was never upgraded in place."
        print(json.dumps({"error": message}, indent=2) if as_json else message)
        return PROBLEM
    print(
        json.dumps(_facts(stream, change), indent=2)
        if as_json
        else "\n".join(_lines(stream, change))
    )
    return OK


def _facts(stream: StreamHome, change: Change) -> dict[str, Any]:
    reached, end = stream.stages(change.number), stream.change_end(change.number)
    return {
        "stream": stream.name,
        "change": change.number,
        "replaced": change.replaced,
        "deployment": change.deployment,
        "stage": newest_stage(reached).value,
        "outcome": None if end is None else end.outcome.value,
        "stages": [
            {
                "stage": stage.value,
                "at": format_time(reached[stage].at),
                "by": reached[stage].by,
                "reason": reached[stage].reason,
                "facts": dict(reached[stage].facts),
            }
            for stage in Stage
            if stage in reached
        ],
    }


def _lines(stream: StreamHome, change: Change) -> list[str]:
    reached, end = stream.stages(change.number), stream.change_end(change.number)
    state = f"{end.outcome} since {clock(end.at)}" if end is not None else "in progress"
    first = (
        f"Change {change.number} of {stream.name}: from deployment {change.replaced} to "
        f"{change.deployment}, {state}."
    )
    lines = [first, f"  {clock(change.at)}  begun         {change.reason} ({change.by})"]
    lines += [
        f"  {clock(reached[stage].at)}  {stage.value:13} {reached[stage].reason} "
        f"({reached[stage].by})"
        for stage in Stage
        if stage in reached
    ]
    if end is None and Stage.ROLLING_BACK in reached and Stage.RESTORED not in reached:
        lines.append(f"  Checkpoint and sinks are not put back yet. {way_out(stream.name)}")
    return [printable(line) for line in lines]
