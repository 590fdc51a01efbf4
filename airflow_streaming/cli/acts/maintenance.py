"""The command ``maintenance``: hold several streams for some time; they start again by themselves."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.cli.acts.group import live_lanes
from airflow_streaming.cli.common import (
    OK,
    PROBLEM,
    add_json,
    add_person,
    duration,
    number,
    person_of,
    positive,
)
from airflow_streaming.cli.output import complain, show_json, show_lines
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import Home
from airflow_streaming.model.codec import encode
from airflow_streaming.model.records.control import HeldStream, Maintenance
from airflow_streaming.reports.terminal import clock
from airflow_streaming.services.maintenance import (
    HeldState,
    MaintenanceLog,
    begin_maintenance,
    course,
    held_streams,
    hold_streams,
    streams_left,
)
from airflow_streaming.services.streams import Probe
from airflow_streaming.storage.probe import ensure_exclusive

AT_ONCE: Final = 10
SPACING: Final = timedelta(minutes=1)
_OF_BEGIN: Final = ("yes", "at_once", "spacing", "by", "reason")
"""Options that ``--show`` does not have."""
_STATES: Final = {
    HeldState.LEFT: "is left as it is: a user stopped it without an end.",
    HeldState.HELD_LONGER: "is held longer by another stop, and starts at its end.",
    HeldState.NOT_HELD: "was never held. Repeat the command to hold it.",
}


def _seconds_from_one(text: str) -> timedelta:
    return timedelta(seconds=number(1, 10_000_000, "seconds")(text))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--select", metavar="SELECTOR", help="the streams, e.g. 'source=kafka://broker-1*'"
    )
    what.add_argument(
        "--show",
        action="store_true",
        help="show the newest maintenance, and others that are not over",
    )
    parser.add_argument(
        "--for",
        dest="lasts",
        type=_seconds_from_one,
        metavar="SECONDS",
        help="time until the first streams start again (required with --select)",
    )
    parser.add_argument(
        "--at-once",
        type=positive,
        metavar="N",
        help="streams that start at one moment (default: 10)",
    )
    parser.add_argument(
        "--spacing",
        type=duration,
        metavar="SECONDS",
        help="time until the next of them start (default: 60)",
    )
    parser.add_argument(
        "--yes", action="store_true", help="begin (default: name the streams and change nothing)"
    )
    add_person(parser)
    add_json(parser)


def run(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    """
    Begin or show a maintenance, and return the exit code.

    :raises SpecError: an argument is wrong.
    """
    if arguments.show:
        return _show_newest(home, arguments)
    if arguments.lasts is None:
        raise SpecError("--select needs the duration of the maintenance: give --for SECONDS.")
    lanes, now = live_lanes(home, arguments.select, probe), datetime.now(UTC)
    if not lanes:
        raise SpecError(
            f"No stream of {home.store.uri} matches {arguments.select!r}. Nothing was changed."
        )
    until = now + arguments.lasts
    streams = held_streams(
        lanes,
        until,
        at_once=arguments.at_once or AT_ONCE,
        spacing=SPACING if arguments.spacing is None else arguments.spacing,
    )
    if not arguments.yes:
        return _show_plan(streams, streams_left(home, streams, now), arguments)
    ensure_exclusive(home.store)
    person = person_of(arguments)
    begun = begin_maintenance(
        home,
        streams,
        until,
        selector=arguments.select,
        key=f"{person.name} {now.isoformat()}",
        by=person.name,
        reason=person.reason,
        now=now,
    )
    left = hold_streams(home, begun, by=person.name)
    complain_left(left)
    states = course(home, begun, datetime.now(UTC))
    if arguments.json:
        show_json(_facts(begun, states) | {"left": left})
    else:
        show_lines(_lines(begun, states))
    return PROBLEM if left else _code(states)


def complain_left(left: Mapping[str, str]) -> None:
    for name, why in left.items():
        complain(f"{name} is left as it is: {why}")


def _show_plan(
    streams: Sequence[HeldStream], left: Mapping[str, str], arguments: argparse.Namespace
) -> int:
    """Show what the command would do with ``--yes``, and return the code that it would return."""
    if arguments.json:
        show_json({"number": None, "streams": [encode(one) for one in streams], "left": dict(left)})
    else:
        complain_left(left)
        held = [_line(one) for one in streams if one.name not in left]
        show_lines([*held, "Nothing was changed. Repeat the command with --yes."])
    return PROBLEM if left else OK


def _show_newest(home: Home, arguments: argparse.Namespace) -> int:
    given = [f"--{name}" for name in _OF_BEGIN if getattr(arguments, name) not in (None, False)]
    if arguments.lasts is not None:
        given.append("--for")
    if given:
        raise SpecError(
            f"--show changes nothing, and {', '.join(given)} begins a maintenance. Leave one of them out."
        )
    log, now = MaintenanceLog(home.store), datetime.now(UTC)
    newest = log.newest()
    if newest is None:
        complain(f"{home.store.uri} has no maintenance.")
        return PROBLEM
    earlier = [one for one in log.unfinished(now) if one.number != newest.number]
    shown = [(one, course(home, one, now)) for one in (newest, *earlier)]
    if arguments.json:
        first, *others = (_facts(one, states) for one, states in shown)
        show_json(first | {"earlier": others})
    else:
        show_lines([line for one, states in shown for line in _lines(one, states)])
    return max(_code(states) for _, states in shown)


def _facts(maintenance: Maintenance, states: Mapping[str, HeldState]) -> dict[str, Any]:
    return {**maintenance.to_dict(), "states": encode(states)}


def _code(states: Mapping[str, HeldState]) -> int:
    return PROBLEM if {HeldState.STARTING, HeldState.NOT_HELD} & {*states.values()} else OK


def _lines(maintenance: Maintenance, states: Mapping[str, HeldState]) -> list[str]:
    begun = f"Maintenance {maintenance.number} by {maintenance.by}: {maintenance.reason}"
    return [begun, *(_state_line(one, states[one.name]) for one in maintenance.streams)]


def _state_line(one: HeldStream, state: HeldState) -> str:
    text = _STATES.get(state)
    return f"{one.name} {text}" if text else f"{_line(one)} Now: {state}."


def _line(one: HeldStream) -> str:
    loss = ""
    if one.loss_at is not None:
        verb = "loses" if one.loss_at <= one.until else "keeps"
        loss = f" It {verb} unread data until then; its source removes the first at {clock(one.loss_at)}."
    return f"{one.name} starts again at {clock(one.until)}.{loss}"
