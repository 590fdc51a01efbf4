"""
What a stream did: the commands ``events``, its timeline with filters, and ``log``, its driver's output.

The timeline shows what the provider did and which commands it was given, with who did it, the newest last, as a
log does. The end of a driver's output is shown also after its pod or host is gone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_streaming.cli.common import OK, PROBLEM, hours, positive
from airflow_streaming.cli.output import complain, is_terminal
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher
from airflow_streaming.model.records.control import Event, EventKind
from airflow_streaming.reports.terminal import clock, printable
from airflow_streaming.supervision.driver_logs import MOST, shown_log


def add_events(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    parser.add_argument(
        "--kind",
        action="append",
        choices=[kind.value for kind in EventKind],
        metavar="KIND",
        help=f"only these kinds; may be repeated: {', '.join(kind.value for kind in EventKind)}",
    )
    parser.add_argument("--by", metavar="TEXT", help="only what was done by a name with this text")
    parser.add_argument("--contains", metavar="TEXT", help="only lines with this text")
    parser.add_argument("--since", type=hours, metavar="HOURS", help="only the last hours")
    parser.add_argument(
        "--last", type=positive, default=50, metavar="N", help="at most N (default: 50)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")


def show_events(stream: StreamHome, arguments: argparse.Namespace) -> int:
    """Print the events that are asked for."""
    found = [*selected(stream.events(10_000), arguments, datetime.now(UTC))][-arguments.last :]
    if arguments.json:
        told = {"stream": stream.name, "events": [event.to_dict() for event in found]}
        print(json.dumps(told, indent=2))
        return OK
    width = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
    for event in found:
        print(wrapped(printable(line(event)), width))
    if not found:
        print(f"Nothing on the timeline of {stream.name} matches.")
    return OK


_MESSAGE_AT: Final = 43
"""Column at which the message of a line begins."""


def wrapped(text: str, width: int | None) -> str:
    """Return a line in the width of a terminal, the rest below its message; whole without a width."""
    if width is None or width < _MESSAGE_AT + 20:
        return text
    return textwrap.fill(text, width, subsequent_indent=" " * _MESSAGE_AT)


def line(event: Event) -> str:
    """Return an event as a line of the timeline."""
    epoch = f" (epoch {event.epoch})" if event.epoch else ""
    return f"{clock(event.at)}  {event.event.value:16}  {event.message}{epoch}  [{event.by}]"


def selected(events: list[Event], arguments: argparse.Namespace, now: datetime) -> Iterator[Event]:
    """Yield the events that pass every filter."""
    since = None if arguments.since is None else now - timedelta(hours=arguments.since)
    for event in events:
        if arguments.kind and event.event.value not in arguments.kind:
            continue
        if arguments.by and arguments.by.lower() not in event.by.lower():
            continue
        if arguments.contains and arguments.contains.lower() not in line(event).lower():
            continue
        if since is None or event.at >= since:
            yield event


def add_log(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    parser.add_argument(
        "--epoch", type=positive, metavar="N", help="of this epoch (default: the newest)"
    )


def show_log(stream: StreamHome, arguments: argparse.Namespace, launcher: Launcher) -> int:
    """Print the end of the log; what a driver wrote is shown without control characters."""
    newest = stream.newest_epoch()
    number = arguments.epoch or (newest.number if newest is not None else 0)
    if newest is None or number > newest.number:
        complain(f"Stream {stream.name} has no epoch {number or 1} yet.")
        return PROBLEM
    epoch, launch = stream.epoch(number), stream.launch(number)
    if launch is None:
        complain(f"No driver of epoch {number} of {stream.name} is recorded.")
        return PROBLEM
    # The file that a record names is not opened: what is on this host was kept when it failed.
    log = launcher.logs(epoch, launch, None, MOST)
    try:
        text = shown_log(log, stream.driver_log(number) if log.tail is None else None)
    except LookupError as err:
        complain(str(err))
        return PROBLEM
    for line in text.splitlines():
        print(printable(line))
    return OK
