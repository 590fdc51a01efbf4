"""The command ``maintenance``: hold several streams for some time; they start again by themselves."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from airflow_streaming.cli.acts.group import live_lanes
from airflow_streaming.cli.common import (
    OK,
    PROBLEM,
    add_json,
    add_person,
    duration,
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
)
from airflow_streaming.services.streams import Probe
from airflow_streaming.storage.probe import ensure_exclusive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--select", metavar="SELECTOR", help="the streams, e.g. 'source=kafka://broker-1*'"
    )
    what.add_argument("--show", action="store_true", help="show the newest maintenance")
    parser.add_argument(
        "--for",
        dest="lasts",
        type=duration,
        metavar="SECONDS",
        help="time until the first streams start again (required with --select)",
    )
    parser.add_argument(
        "--at-once",
        type=positive,
        default=10,
        metavar="N",
        help="streams that start at one moment (default: 10)",
    )
    parser.add_argument(
        "--spacing",
        type=duration,
        default=duration("60"),
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
        newest = MaintenanceLog(home.store).newest()
        if newest is None:
            raise SpecError(f"{home.store.uri} has no maintenance.")
        return _show(home, newest, arguments)
    if arguments.lasts is None:
        raise SpecError("--select needs the duration of the maintenance: give --for SECONDS.")
    lanes, now = live_lanes(home, arguments.select, probe), datetime.now(UTC)
    if not lanes:
        complain(
            f"No stream of {home.store.uri} matches {arguments.select!r}. Nothing was changed."
        )
        return PROBLEM
    until = now + arguments.lasts
    streams = held_streams(lanes, until, at_once=arguments.at_once, spacing=arguments.spacing)
    if not arguments.yes:
        show_lines([*map(_line, streams), "Nothing was changed. Repeat the command with --yes."])
        return OK
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
    for name, why in left.items():
        complain(f"{name} is left as it is: {why}")
    code = _show(home, begun, arguments)
    return PROBLEM if left else code


def _show(home: Home, maintenance: Maintenance, arguments: argparse.Namespace) -> int:
    states = course(home, maintenance, datetime.now(UTC))
    if arguments.json:
        show_json({**maintenance.to_dict(), "states": encode(states)})
    else:
        begun = f"Maintenance {maintenance.number} by {maintenance.by}: {maintenance.reason}"
        lines = (f"{_line(one)} Now: {states[one.name]}." for one in maintenance.streams)
        show_lines([begun, *lines])
    return PROBLEM if HeldState.STARTING in states.values() else OK


def _line(one: HeldStream) -> str:
    loss = ""
    if one.loss_at is not None:
        verb = "loses" if one.loss_at <= one.until else "keeps"
        loss = f" It {verb} unread data until then; its source removes the first at {clock(one.loss_at)}."
    return f"{one.name} starts again at {clock(one.until)}.{loss}"
