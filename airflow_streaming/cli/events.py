"""
The command ``events``: the timeline of a stream, with filters.

It shows what the provider did and what it was told to do, with who did it, the newest last, as a log
does.
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

from airflow_streaming.cli.common import OK, hours, positive
from airflow_streaming.cli.output import is_terminal
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import Event, EventKind
from airflow_streaming.reports.terminal import clock, printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(stream: StreamHome, arguments: argparse.Namespace) -> int:
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
