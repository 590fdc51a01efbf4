"""The acts on a selection of streams: ``start --select`` and ``stop --select``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from airflow_streaming.cli.acts.single import end_of_stop, start, stop, wait_until_down
from airflow_streaming.cli.common import OK, PROBLEM, Person, person_of
from airflow_streaming.cli.output import complain, show_lines
from airflow_streaming.cli.status import standing_of
from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.arguments.selector import parse_selector
from airflow_streaming.model.names import base_of
from airflow_streaming.services.selection import live_lanes as lanes_of_selector
from airflow_streaming.services.selection import selected
from airflow_streaming.services.streams import Probe
from airflow_streaming.storage.probe import ensure_exclusive

Act = Callable[[StreamHome, Person], object]


def run(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    """
    Act on the live lane of each selected stream, a stream after those whose output it reads.

    Without ``--yes`` the streams are only named. A stream that refuses the act does not hold up the others.

    :raises SpecError: the selector cannot be read, no stream has one of its keys, or an option is for one stream.
    """
    if (
        arguments.stream is not None
        or arguments.color is not None
        or getattr(arguments, "again", None)
    ):
        raise SpecError(
            "--select acts on the live lanes of several streams: leave out STREAM, --color and --again."
        )
    lanes = live_lanes(home, arguments.select, probe)
    named = ", ".join(base_of(lane.name) for lane in lanes)
    if not lanes:
        raise SpecError(
            f"No stream of {home.store.uri} matches {arguments.select!r}. Nothing was changed."
        )
    if not arguments.yes:
        show_lines(
            [
                f"Would {arguments.command} {len(lanes)}, in this order: {named}.",
                "Nothing was changed. Repeat the command with --yes.",
            ]
        )
        return OK
    ensure_exclusive(home.store)
    act = _start if arguments.command == "start" else _stop_together(arguments, probe)
    done = [lane for lane in lanes if _is_done(act, lane, person_of(arguments))]
    refused = [base_of(lane.name) for lane in lanes if lane not in done]
    if refused:
        complain(f"{len(refused)} of {len(lanes)} streams refused: {', '.join(refused)}.")
    wait = getattr(arguments, "wait", None)
    is_down = wait is None or _are_down(done, probe, wait)
    return OK if is_down and not refused else PROBLEM


def _are_down(lanes: list[StreamHome], probe: Probe, limit: float) -> bool:
    """Wait for all drivers, together at most ``limit`` seconds, and tell whether they are proved dead."""
    deadline = time.monotonic() + limit
    codes = [
        wait_until_down(lane, probe, max(0.0, deadline - time.monotonic()))
        for lane in lanes
        if lane.newest_epoch()
    ]
    return PROBLEM not in codes


def live_lanes(home: Home, text: str, probe: Probe) -> list[StreamHome]:
    """Return the live lanes of the selected streams, each after those whose output it reads."""
    selector = parse_selector(text)
    lanes = lanes_of_selector(home, selector)
    found = selected(home, lanes, selector, lambda lane: standing_of(lane, probe))
    return [home.stream(lane) for lane in found]


def _start(lane: StreamHome, person: Person) -> None:
    start(lane, person, again=False)


def _stop_together(arguments: argparse.Namespace, probe: Probe) -> Act:
    until = end_of_stop(arguments)  # one moment for all streams
    return lambda lane, person: stop(
        lane, person, probe, grace=arguments.grace, wait=None, until=until
    )


def _is_done(act: Act, lane: StreamHome, person: Person) -> bool:
    try:
        if not lane.deployment_numbers():
            # Only a record of the act would remain of the stream.
            raise SpecError(
                "It has no deployment any more, and was not changed. Look for its folder."
            )
        act(lane, person)
    except StreamingError as err:
        complain(f"{base_of(lane.name)}: {err}")
        return False
    return True
