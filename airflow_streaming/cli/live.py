"""The command ``live``: what consumers of a stream read, for scripts and people."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from airflow_streaming.cli.person import OK
from airflow_streaming.cli.table import clock, columns, printable
from airflow_streaming.core.codec import encode
from airflow_streaming.home.consumers import Live, live
from airflow_streaming.home.home import Home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of lines")
    form.add_argument("--output", action="store_true", help="print the output's URI and no more")


def show_live(home: Home, arguments: argparse.Namespace) -> int:
    """
    Print what is live.

    :raises SpecError: there is no such stream in the home.
    """
    if arguments.output:
        print(live(home, arguments.stream).output)
        return OK
    found = live(home, arguments.stream, history=True)
    if arguments.json:
        print(json.dumps(to_dict(found), indent=2, sort_keys=True))
    else:
        print("\n".join(map(printable, _lines(found))))
    return OK


def to_dict(found: Live) -> dict[str, Any]:
    """Return what is live for ``--json``; what was live before is in it, oldest first."""
    told: dict[str, Any] = encode(found)
    history = [{**encode(reign), "colour": reign.colour.value} for reign in found.history]
    return {**told, "colour": found.colour.value, "history": history}


def _lines(found: Live) -> Iterator[str]:
    since = f"since {clock(found.since)}" if found.since else "never cut over"
    yield f"{found.stream}: {found.colour.upper()} is live, {since}"
    yield ""
    facts = [
        ("lane", found.lane),
        ("deployment", str(found.deployment)),
        ("output", found.output),
    ]
    yield from columns(facts, gap=3)
    if not found.history:
        return
    yield ""
    yield "Before, which a cutover may have left as it was"
    rows = [("until", "lane", "deployment", "output")]
    for reign in reversed(found.history):
        rows.append((clock(reign.until), reign.lane, str(reign.deployment), reign.output))
    yield from columns(rows)
