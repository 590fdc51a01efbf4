"""
The acts on one stream: start, stop, declare-dead, hand-over.

Each command is the same act as the operator of that name: a record in the home, which the task that
keeps the stream alive follows.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime, timedelta

from airflow_streaming.cli.common import (
    OK,
    PROBLEM,
    Person,
    add_person,
    add_select,
    add_stream,
    duration,
    person_of,
    positive,
    seconds,
)
from airflow_streaming.cli.output import complain, notice, show_lines
from airflow_streaming.cli.status import POLL_SECONDS, observe
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Observation, ProcessState
from airflow_streaming.model.records.control import Desired
from airflow_streaming.reports.terminal import clock
from airflow_streaming.services import streams
from airflow_streaming.services.streams import Probe
from airflow_streaming.supervision.health import judge


def add_start_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``start``."""
    _add_streams(parser)
    parser.add_argument(
        "--again",
        action="store_true",
        help="launch the same copy again, although it was abandoned (default: refuse)",
    )
    add_person(parser)


def add_stop_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``stop``."""
    _add_streams(parser)
    parser.add_argument(
        "--grace",
        type=duration,
        metavar="SECONDS",
        help="how long the driver may take to reach a batch boundary before it is killed "
        "(default: the stop_grace of the stream's DAG)",
    )
    parser.add_argument(
        "--wait",
        type=seconds,
        metavar="SECONDS",
        help="wait until the driver is proved dead, at most so long (default: do not wait)",
    )
    parser.add_argument(
        "--resume-after",
        type=duration,
        metavar="SECONDS",
        help="when the keep-alive task starts the stream again (default: `start` does it)",
    )
    add_person(parser)


def _add_streams(parser: argparse.ArgumentParser) -> None:
    add_stream(parser, is_optional=True)
    add_select(parser, "act on the streams that match")
    parser.add_argument(
        "--yes",
        action="store_true",
        help="act on the selected streams (default: --select names them and changes nothing)",
    )


def add_declare_dead_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``declare-dead``."""
    add_stream(parser)
    parser.add_argument(
        "--epoch",
        type=positive,
        required=True,
        metavar="N",
        help="the newest epoch, as `status` shows it (required)",
    )
    add_person(parser, must_say_why=True)


def add_hand_over_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hand-over``."""
    add_stream(parser)
    parser.add_argument(
        "--to", required=True, metavar="DAG", help="id of the DAG that becomes the owner (required)"
    )
    parser.add_argument(
        "--team", default="", help="team of that DAG; a DAG of another team with this id is refused"
    )
    add_person(parser, must_say_why=True)


def run(stream: StreamHome, arguments: argparse.Namespace, probe: Probe) -> int:
    """Run the command on a stream and return its exit code."""
    person = person_of(arguments)
    if arguments.command == "start":
        return start(stream, person, again=arguments.again)
    if arguments.command == "stop":
        until = end_of_stop(arguments)
        return stop(stream, person, probe, grace=arguments.grace, wait=arguments.wait, until=until)
    if arguments.command == "hand-over":
        return hand_over(stream, person, dag_id=arguments.to, team=arguments.team)
    return declare_dead(stream, person, probe, number=arguments.epoch)


def start(stream: StreamHome, person: Person, *, again: bool) -> int:
    """Start a stream, and say what brings it up."""
    done = streams.start(stream, by=person.name, reason=person.reason, again=again)
    lines = [_desired(stream, done.desired, person, is_new=done.is_new)]
    if done.closed is not None:
        lines.append(
            f"Its circuit was open and is closed, with a whole restart budget: {done.closed.reason}"
        )
    show_lines([*lines, "Its keep-alive task starts the driver; the DAG must be unpaused."])
    return OK


def end_of_stop(arguments: argparse.Namespace) -> datetime | None:
    """Return when a stop that begins now is to end, by ``--resume-after``."""
    lasts: timedelta | None = arguments.resume_after
    return None if lasts is None else datetime.now(UTC) + lasts


def stop(
    stream: StreamHome,
    person: Person,
    probe: Probe,
    *,
    grace: timedelta | None,
    wait: float | None,
    until: datetime | None,
) -> int:
    """Stop a stream; with ``wait`` until its driver is proved dead."""
    done = streams.stop(stream, by=person.name, reason=person.reason, grace=grace, until=until)
    lines = [_desired(stream, done.desired, person, is_new=done.is_new)]
    if until is not None:
        lines.append(_what_ends_it(stream, done.desired))
    from airflow_streaming.cli.cutover import what_a_stop_does  # see _COMMANDS

    if consequence := what_a_stop_does(stream):
        lines.append(consequence)
    if done.epoch is None:
        show_lines([*lines, "It has never run and has no driver to stop."])
        return OK
    if done.is_asked_now:
        lines.append(f"The driver of epoch {done.epoch} will stop at its next batch boundary.")
    elif done.request is not None:
        lines.append(
            f"{done.request.by} has already asked the driver of epoch {done.epoch} to stop."
        )
    show_lines(lines)
    return OK if wait is None else wait_until_down(stream, probe, wait)


def hand_over(stream: StreamHome, person: Person, *, dag_id: str, team: str) -> int:
    """Make another DAG the owner of the stream; the running driver is not touched."""
    owner, is_new = streams.hand_over(
        stream, dag_id, by=person.name, reason=person.reason, team=team
    )
    if not is_new:
        show_lines([f"{owner.stream} already belongs to dag {dag_id}. Nothing was changed."])
        return OK
    show_lines(
        [
            f"{owner.stream} now belongs to dag {dag_id}.",
            "Unpause that dag: its keep-alive task adopts the driver that runs.",
            "Pause the earlier owner; its task fails when it next acts.",
        ]
    )
    return OK


def declare_dead(stream: StreamHome, person: Person, probe: Probe, *, number: int) -> int:
    """Record a user's statement that a driver is dead which no machine can see."""
    death = streams.declare_dead(stream, probe, number, by=person.name, reason=person.reason)
    show_lines(
        [
            f'Epoch {number} of "{stream.name}" marked dead by {death.by}: {death.evidence}',
            "Its next epoch may start now. If the old driver comes back, it is fenced and ends.",
        ]
    )
    return OK


def _desired(stream: StreamHome, desired: Desired, person: Person, *, is_new: bool) -> str:
    if is_new:
        return f'Desired state of {stream.name} is now "{desired.state}".'
    since = f"by {desired.by} since {clock(desired.at)}"
    stands = (
        f'Desired state of {stream.name} is "{desired.state}" already, {since}: {desired.reason}'
    )
    if not person.says_why:
        return stands
    return f"{stands.rstrip('.')}. The reason given now is not recorded."


def _what_ends_it(stream: StreamHome, stop: Desired) -> str:
    if stop.until is None:
        return f"That stop has no end: airflow-streaming start {stream.name}."
    return f"Its keep-alive task starts the driver after {clock(stop.until)}; the DAG must be unpaused."


def wait_until_down(stream: StreamHome, probe: Probe, limit: float) -> int:
    """Wait until a stream's driver is proved dead, at most ``limit`` seconds."""
    deadline = time.monotonic() + limit
    is_told = False
    while True:
        epoch = stream.newest_epoch()
        seen = None if epoch is None else observe(stream, epoch, probe)
        if seen is not None and _is_down(seen):
            show_lines([f"{stream.name} is down. {judge(seen, HealthRules()).reason}"])
            return OK
        process = f" ({seen.process.detail})" if seen is not None else ""
        if time.monotonic() >= deadline:
            complain(
                f"The driver of {stream.name} is not proved dead after {duration_text(limit)}{process}. "
                "The request stands; the keep-alive task kills a driver that exceeds its grace."
            )
            return PROBLEM
        if not is_told:
            notice(f"Waiting up to {duration_text(limit)} for the driver to stop{process}.")
            is_told = True
        time.sleep(POLL_SECONDS)


def _is_down(seen: Observation) -> bool:
    # From another host the driver's own exit record is all the proof there is.
    last_word = seen.exit is not None and seen.process.state is ProcessState.UNSEEN
    return judge(seen, HealthRules()).has_ended or last_word
