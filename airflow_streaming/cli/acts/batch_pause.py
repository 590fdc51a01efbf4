"""
The command ``pause``: hold a stream between two batches while other work changes its tables.

It is the act of ``PauseStreamOperator`` without Airflow.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_streaming.cli.common import (
    OK,
    PROBLEM,
    add_home,
    add_json,
    add_person,
    duration,
    person_of,
)
from airflow_streaming.cli.output import complain, notice, show_json, show_lines
from airflow_streaming.exceptions import PauseRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.codec import encode, format_time
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.records.control import BatchPause
from airflow_streaming.services.streams import (
    Probe,
    begin_pause,
    end_pause,
    look_at_pause,
)
from airflow_streaming.supervision.batch_pause import PauseState

_LOOK_SECONDS: Final = 1.0
_VERBS: Final = {
    "begin": "hold the stream after its batches in work; exit code 1 when it continues instead",
    "end": "let the stream continue; exit code 1 when it had continued before",
    "status": "show the newest pause; exit code 1 without one",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    kinds = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, text in _VERBS.items():
        verb = kinds.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        add_home(verb)
        verb.add_argument("stream", metavar="STREAM", help="name of the stream")
        if name == "status":
            add_json(verb)
            continue
        if name == "begin":
            _add_lengths(verb)
        add_person(verb)


def _add_lengths(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--longest",
        type=duration,
        default=timedelta(hours=1),
        metavar="SECONDS",
        help="after which the driver lets the stream continue (default: 3600)",
    )
    verb.add_argument(
        "--begin-within",
        type=duration,
        default=timedelta(minutes=10),
        metavar="SECONDS",
        help="how long the batches in work may take to end (default: 600)",
    )


def run(stream: StreamHome, arguments: argparse.Namespace, probe: Probe) -> int:
    """Run the verb and return the exit code."""
    if arguments.verb == "begin":
        return _begin(stream, arguments, probe)
    pause = stream.newest_pause()
    if pause is None:
        complain(f"{stream.name} has never had a pause.")
        return PROBLEM
    if arguments.verb == "status":
        return _show(stream, pause, probe, as_json=arguments.json)
    if stream.batch_pause_end(pause.number) is not None or pause.until <= datetime.now(UTC):
        raise PauseRefused(f"{stream.name} has no pause that is open.")
    person = person_of(arguments)
    done = end_pause(stream, pause, probe, by=person.name, reason=person.reason)
    if not done.held:
        complain(f"{stream.name} had not been held until now. {done.reason}")
        return PROBLEM
    show_lines([f"Pause {pause.number} is closed; {stream.name} continues."])
    return OK


def _begin(stream: StreamHome, arguments: argparse.Namespace, probe: Probe) -> int:
    person = person_of(arguments)
    pause = begin_pause(
        stream,
        longest=arguments.longest,
        begin_within=arguments.begin_within,
        by=person.name,
        reason=person.reason,
    )
    notice(
        f"Waiting for the end of the batches in work, up to {duration_text(pause.begin_within)}."
    )
    try:
        while True:
            standing = look_at_pause(stream, pause, probe)
            if standing.state is not PauseState.WAITING:
                break
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        end_pause(stream, pause, probe, by=person.name, reason="Interrupted.")
        raise
    if standing.state is not PauseState.HELD:
        end_pause(stream, pause, probe, by=person.name, reason=standing.reason)
        complain(f"{stream.name} is not held and continues. {standing.reason}")
        return PROBLEM
    show_lines(
        [
            f"Pause {pause.number} of {stream.name}: {standing.reason}",
            f"Close it: airflow-streaming pause end {stream.name}",
        ]
    )
    return OK


def _show(stream: StreamHome, pause: BatchPause, probe: Probe, *, as_json: bool) -> int:
    standing = look_at_pause(stream, pause, probe)
    if as_json:
        facts = {"state": standing.state.value, "reason": standing.reason, "pause": encode(pause)}
        show_json(facts)
        return OK
    show_lines(
        [
            f"Pause {pause.number} of {stream.name} is {standing.state}: {standing.reason}",
            f"Opened by {pause.by} at {format_time(pause.at)}: {pause.reason}",
        ]
    )
    return OK
