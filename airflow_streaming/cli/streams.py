"""
The acts on streams: start, stop, declare-dead, hand-over.

Each command is the same act as the operator of that name: a record in the home, which the task that
keeps the stream alive follows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from airflow_streaming.cli import status
from airflow_streaming.cli.asked_clusters import listed_launcher
from airflow_streaming.cli.common import (
    OK,
    PROBLEM,
    Person,
    add_person,
    add_stream,
    duration,
    person_of,
    positive,
    seconds,
)
from airflow_streaming.cli.known_home import lane_named, open_known
from airflow_streaming.cli.output import complain, notice, show_lines
from airflow_streaming.cli.status import POLL_SECONDS, list_streams, observe, show_status
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Observation, ProcessState
from airflow_streaming.model.records.control import Desired
from airflow_streaming.reports.terminal import clock
from airflow_streaming.services import streams
from airflow_streaming.services.streams import Probe
from airflow_streaming.storage.probe import damage, ensure_exclusive
from airflow_streaming.supervision.health import judge

READING: Final = frozenset({"list", "status", "conf", "doctor", "events", "log", "top"})
_CHANGES: Final = frozenset({"upgrade", "cutover"})


def add_start_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``start``."""
    add_stream(parser)
    parser.add_argument(
        "--again",
        action="store_true",
        help="launch the same copy again, although it was abandoned (default: refuse)",
    )
    add_person(parser)


def add_stop_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``stop``."""
    add_stream(parser)
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
    add_person(parser)


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


def start(stream: StreamHome, person: Person, *, again: bool) -> int:
    """Start a stream, and say what brings it up."""
    done = streams.start(stream, by=person.name, reason=person.reason, again=again)
    lines = [_desired(stream, done.desired, is_new=done.is_new)]
    if done.closed is not None:
        lines.append(
            f"Its circuit was open and is closed, with a whole restart budget: {done.closed.reason}"
        )
    show_lines([*lines, "Its keep-alive task starts the driver; the DAG must be unpaused."])
    return OK


def stop(
    stream: StreamHome, person: Person, probe: Probe, *, grace: timedelta | None, wait: float | None
) -> int:
    """Stop a stream; with ``wait`` until its driver is proved dead."""
    done = streams.stop(stream, by=person.name, reason=person.reason, grace=grace)
    lines = [_desired(stream, done.desired, is_new=done.is_new)]
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
    return OK if wait is None else _wait_until_down(stream, probe, wait)


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


def _desired(stream: StreamHome, desired: Desired, *, is_new: bool) -> str:
    if is_new:
        return f'Desired state of {stream.name} is now "{desired.state}".'
    since = f"by {desired.by} since {clock(desired.at)}"
    return f'Desired state of {stream.name} is "{desired.state}" already, {since}.'


def _wait_until_down(stream: StreamHome, probe: Probe, limit: float) -> int:
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


def run(arguments: argparse.Namespace, probe: Probe | None) -> int:
    """
    Run one command and return its exit code.

    :param probe: Reads driver processes; by default through their launchers.
    :raises SpecError: wrong use.
    :raises StreamingError: the stream does not exist, or a read or a change of it failed.
    """
    return _run(open_known(arguments.home), arguments, probe or listed_launcher().probe)


def _run(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    if arguments.command in _OF_HOME:
        return _OF_HOME[arguments.command](home, arguments, probe)
    if arguments.command in {"live", "cutover"}:
        from airflow_streaming.cli import cutover  # see _COMMANDS

        stream = cutover.home_of(home, arguments.stream)
    else:
        stream = lane_named(home, arguments.stream, getattr(arguments, "color", None))
    _check_is_there(home, stream)
    if arguments.command == "live":
        return status.show_live(home, arguments)
    if arguments.command in _CHANGES and arguments.verb == "status":
        return _show_change(home, stream, arguments, probe)
    if arguments.command not in READING and not getattr(arguments, "dry_run", False):
        ensure_exclusive(home.store)
    if arguments.command == "checkpoint":
        from airflow_streaming.cli.checkpoint.arguments import run_on_stream

        return run_on_stream(stream, arguments, person_of(arguments))
    if arguments.command == "events":
        from airflow_streaming.cli import history  # the others do without

        return history.show_events(stream, arguments)
    if arguments.command == "doctor":
        from airflow_streaming.cli import advice  # the others do without

        return advice.show_advice(home, stream, cores=arguments.cores, as_json=arguments.json)
    return _COMMANDS[arguments.command](stream, arguments, probe)


def _remove(home: Home, arguments: argparse.Namespace, _: Probe) -> int:
    from airflow_streaming.cli import remove  # the others do without

    if not getattr(arguments, "dry_run", False):
        ensure_exclusive(home.store)
    if arguments.command == "reuse":
        return remove.reuse(home, arguments, person_of(arguments))
    return remove.run(home, arguments, person_of(arguments), listed_launcher())


def _show_top(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    from airflow_streaming.cli import top  # rich is loaded by this command only

    if arguments.stream is not None:
        _check_is_there(home, home.stream(arguments.stream))
    return top.run(home, arguments, probe)


def _show_change(
    home: Home, stream: StreamHome, arguments: argparse.Namespace, probe: Probe
) -> int:
    """Show a change; beside it stands why a command would be refused."""
    code = _COMMANDS[arguments.command](stream, arguments, probe)
    why = damage(home.store)
    if why:
        complain(why)
    return PROBLEM if why else code


def _check_is_there(home: Home, stream: StreamHome) -> None:
    if stream.newest_deployment() is None:
        from airflow_streaming.cli.cutover import why_there_is_none  # see _COMMANDS

        raise StreamingError(why_there_is_none(stream) or home.why_unknown(stream.name))


def _show_conf(stream: StreamHome, arguments: argparse.Namespace) -> int:
    from airflow_streaming.cli import advice  # the others do without

    return advice.show_conf(arguments, stream)


def _show_log(stream: StreamHome, arguments: argparse.Namespace) -> int:
    from airflow_streaming.cli import history  # the others do without

    return history.show_log(stream, arguments, listed_launcher())


def _upgrade(stream: StreamHome, arguments: argparse.Namespace) -> int:
    from airflow_streaming.cli import upgrade  # see _COMMANDS

    return upgrade.run(stream, arguments, person_of(arguments))


def _cutover(stream: StreamHome, arguments: argparse.Namespace) -> int:
    from airflow_streaming.cli import cutover  # see _COMMANDS

    return cutover.run(stream, arguments, person_of(arguments))


def _prune(stream: StreamHome, arguments: argparse.Namespace) -> int:
    from airflow_streaming.cli import prune  # the others do without

    return prune.run(Home(stream.store), stream, arguments, person_of(arguments))


def _windows(stream: StreamHome, arguments: argparse.Namespace) -> int:
    from airflow_streaming.cli import windows  # the others do without

    return windows.run(stream, arguments, person_of(arguments))


# These commands name no stream, or a stream that need not exist.
_OF_HOME: Final[dict[str, Callable[[Home, argparse.Namespace, Probe], int]]] = {
    "list": lambda home, a, probe: list_streams(home, probe, a),
    "top": _show_top,
    "remove": _remove,
    "reuse": _remove,
}


# The engine of changes is half of what would be imported; commands that make none do without.
_COMMANDS: Final[dict[str, Callable[[StreamHome, argparse.Namespace, Probe], int]]] = {
    "status": lambda stream, a, probe: show_status(stream, probe, as_json=a.json),
    "start": lambda stream, a, _: start(stream, person_of(a), again=a.again),
    "stop": lambda stream, a, probe: stop(stream, person_of(a), probe, grace=a.grace, wait=a.wait),
    "conf": lambda stream, a, _: _show_conf(stream, a),
    "log": lambda stream, a, _: _show_log(stream, a),
    "upgrade": lambda stream, a, _: _upgrade(stream, a),
    "cutover": lambda stream, a, _: _cutover(stream, a),
    "prune": lambda stream, a, _: _prune(stream, a),
    "windows": lambda stream, a, _: _windows(stream, a),
    "hand-over": lambda stream, a, _: hand_over(stream, person_of(a), dag_id=a.to, team=a.team),
    "declare-dead": lambda stream, a, probe: declare_dead(
        stream, person_of(a), probe, number=a.epoch
    ),
}
