"""The commands on streams of a home: opens the home, finds the lane, and calls the command's module."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from airflow_streaming.cli import status
from airflow_streaming.cli.asked_clusters import listed_launcher
from airflow_streaming.cli.common import (
    PROBLEM,
    person_of,
)
from airflow_streaming.cli.known_home import lane_named, open_known
from airflow_streaming.cli.output import complain
from airflow_streaming.cli.status import list_streams, show_status
from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.services.streams import Probe
from airflow_streaming.storage.probe import damage, ensure_exclusive

READING: Final = frozenset({"list", "status", "conf", "doctor", "events", "log", "top"})
_CHANGES: Final = frozenset({"upgrade", "cutover"})


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
    if getattr(arguments, "select", None) is not None:
        from airflow_streaming.cli.acts import group  # the others do without

        return group.run(home, arguments, probe)
    if arguments.stream is None:
        raise SpecError("Which stream? Name one, or give --select.")
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
    return _COMMANDS[arguments.command](stream, arguments, probe)


def _act(stream: StreamHome, arguments: argparse.Namespace, probe: Probe) -> int:
    from airflow_streaming.cli.acts import single  # commands that look do without

    return single.run(stream, arguments, probe)


def _remove(home: Home, arguments: argparse.Namespace, _: Probe) -> int:
    from airflow_streaming.cli import remove  # the others do without

    if not getattr(arguments, "dry_run", False):
        ensure_exclusive(home.store)
    if arguments.command == "reuse":
        return remove.reuse(home, arguments, person_of(arguments))
    return remove.run(home, arguments, person_of(arguments), listed_launcher())


def _campaign(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    from airflow_streaming.cli.acts import campaign  # the others do without

    return campaign.run(home, arguments, probe)


def _maintain(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    from airflow_streaming.cli.acts import maintenance  # the others do without

    return maintenance.run(home, arguments, probe)


def _drill(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    from airflow_streaming.cli.spark import disaster  # other commands do without

    return disaster.run(home, arguments, probe)


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


def _show_advice(stream: StreamHome, arguments: argparse.Namespace) -> int:
    from airflow_streaming.cli import advice  # the others do without

    home = Home(stream.store)
    return advice.show_advice(
        home,
        stream,
        cores=arguments.cores,
        as_json=arguments.json,
        prices=arguments.prices,
    )


def _show_events(stream: StreamHome, arguments: argparse.Namespace) -> int:
    from airflow_streaming.cli import history  # the others do without

    return history.show_events(stream, arguments)


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


def _pause(stream: StreamHome, arguments: argparse.Namespace, probe: Probe) -> int:
    from airflow_streaming.cli.acts import batch_pause  # the others do without

    return batch_pause.run(stream, arguments, probe)


def _windows(stream: StreamHome, arguments: argparse.Namespace) -> int:
    from airflow_streaming.cli import windows  # the others do without

    return windows.run(stream, arguments, person_of(arguments))


# These commands name no stream, or a stream that need not exist.
_OF_HOME: Final[dict[str, Callable[[Home, argparse.Namespace, Probe], int]]] = {
    "campaign": _campaign,
    "disaster-drill": _drill,
    "maintenance": _maintain,
    "list": lambda home, a, probe: list_streams(home, probe, a),
    "top": _show_top,
    "remove": _remove,
    "reuse": _remove,
}


# The engine of changes is half of what would be imported; commands that make none do without.
_COMMANDS: Final[dict[str, Callable[[StreamHome, argparse.Namespace, Probe], int]]] = {
    "status": lambda stream, a, probe: show_status(stream, probe, as_json=a.json),
    **dict.fromkeys(("start", "stop", "hand-over", "declare-dead"), _act),
    "conf": lambda stream, a, _: _show_conf(stream, a),
    "doctor": lambda stream, a, _: _show_advice(stream, a),
    "events": lambda stream, a, _: _show_events(stream, a),
    "log": lambda stream, a, _: _show_log(stream, a),
    "pause": _pause,
    "upgrade": lambda stream, a, _: _upgrade(stream, a),
    "cutover": lambda stream, a, _: _cutover(stream, a),
    "prune": lambda stream, a, _: _prune(stream, a),
    "windows": lambda stream, a, _: _windows(stream, a),
}
