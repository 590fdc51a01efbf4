"""The acts on a selection of streams: ``start --select`` and ``stop --select``."""

from __future__ import annotations

import argparse
from typing import Final

from airflow_streaming.cli.acts.single import start, stop, wait_until_down
from airflow_streaming.cli.common import OK, PROBLEM, person_of
from airflow_streaming.cli.output import complain, show_lines
from airflow_streaming.cli.status import standing_of
from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.arguments.selector import parse_selector
from airflow_streaming.model.names import base_of
from airflow_streaming.services.selection import selected
from airflow_streaming.services.streams import Probe
from airflow_streaming.storage.probe import ensure_exclusive

ACTS: Final = frozenset({"start", "stop"})


def run(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    """
    Act on the live lane of each selected stream, a stream after those whose output it reads.

    Without ``--yes`` the streams are only named. A stream that refuses the act does not hold up the others.

    :raises SpecError: the selector cannot be read or asks for what no stream has, or an option goes with a
        stream's name only.
    """
    if (
        arguments.stream is not None
        or arguments.color is not None
        or getattr(arguments, "again", None)
    ):
        raise SpecError(
            "--select acts on the live lanes of several streams: leave out STREAM, --color and --again."
        )
    lanes = _live_lanes(home, arguments.select, probe)
    named = ", ".join(base_of(lane.name) for lane in lanes)
    if not lanes:
        complain(
            f"No stream of {home.store.uri} matches {arguments.select!r}. Nothing was changed."
        )
        return PROBLEM
    if not arguments.yes:
        show_lines(
            [
                f"Would {arguments.command} {len(lanes)}, in this order: {named}.",
                "Nothing was changed. Repeat the command with --yes.",
            ]
        )
        return OK
    ensure_exclusive(home.store)
    refused = [lane for lane in lanes if not _act(lane, arguments, probe)]
    if refused:
        names = ", ".join(base_of(lane.name) for lane in refused)
        complain(f"{len(refused)} of {len(lanes)} streams refused: {names}.")
    wait = getattr(arguments, "wait", None)
    asked = [lane for lane in lanes if lane not in refused and wait is not None]
    codes = [wait_until_down(lane, probe, wait or 0) for lane in asked if lane.newest_epoch()]
    return PROBLEM if refused or PROBLEM in codes else OK


def _live_lanes(home: Home, text: str, probe: Probe) -> list[StreamHome]:
    bases = sorted({base_of(name) for name in home.streams()})
    lanes = [live_lane(home, base) for base in bases]
    found = selected(home, lanes, parse_selector(text), lambda lane: standing_of(lane, probe))
    return [home.stream(lane) for lane in found]


def _act(lane: StreamHome, arguments: argparse.Namespace, probe: Probe) -> bool:
    person = person_of(arguments)
    try:
        if arguments.command == "start":
            start(lane, person, again=False)
        else:
            stop(lane, person, probe, grace=arguments.grace, wait=None)
    except StreamingError as err:
        complain(f"{base_of(lane.name)}: {err}")
        return False
    return True
