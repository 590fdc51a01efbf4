"""
What a person on call can do about an upgrade in progress.

A word given here is a record in the home. The task of the upgrade follows it; when its run has
failed, clear the failed task and it goes on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, Final

from airflow_streaming.cli.commands import OK, PROBLEM, Person
from airflow_streaming.cli.table import clock, printable
from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.state import newest_stage
from airflow_streaming.core.wire import format_time
from airflow_streaming.exceptions import UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.upgrade.words import Words

ABOUT: Final = "look at an upgrade in progress, keep it, roll it back or give it up"

_SAID: Final = {
    "keep": "{deployment} stays: this is the point of no return.",
    "roll-back": "{deployment} is taken back, and the deployment before it returns.",
    "abort": "It is given up; the stream stays as it was.",
}
_NEXT: Final = (
    "The task of the upgrade goes on from here. If its run has failed, clear the failed task."
)


def add_arguments(
    parser: argparse.ArgumentParser, add_person: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Declare the verbs and their arguments."""
    parser.add_argument("verb", choices=("status", "keep", "roll-back", "abort"), help="what to do")
    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_person(parser)


def run(stream: StreamHome, arguments: argparse.Namespace, person: Person) -> int:
    """Do what was asked; return the exit code, 1 when there is no upgrade to do it to."""
    change = _newest(stream)
    if arguments.verb == "status":
        return _show(stream, change, as_json=arguments.json)
    if change is None or stream.change_end(change.number) is not None:
        raise UpgradeRefused(f"Stream {stream.name!r} has no upgrade in progress.")
    words = Words(stream, by=person.name)
    say = {"keep": words.keep, "roll-back": words.roll_back, "abort": words.abort}
    say[arguments.verb](change, person.reason)
    told = _SAID[arguments.verb].format(deployment=f"Deployment {change.deployment}")
    if arguments.json:
        print(json.dumps(_facts(stream, change), indent=2))
    else:
        print(f"{told} {_NEXT}")
    return OK


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
    return [printable(line) for line in lines]
