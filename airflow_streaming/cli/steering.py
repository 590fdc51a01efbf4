"""Running a command on the records in a home."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from airflow_streaming.cli import commands, conf, cutover, doctor, live, upgrade
from airflow_streaming.cli.cutover_found import why_there_is_none
from airflow_streaming.cli.known_home import open_known
from airflow_streaming.cli.lane import lane_named
from airflow_streaming.cli.look import Probe, local_probe
from airflow_streaming.cli.person import person_of
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.probe import ensure_exclusive

READING: Final = frozenset({"list", "status", "conf", "doctor"})


def run(arguments: argparse.Namespace, probe: Probe | None) -> int:
    """
    Run one command and return its exit code.

    :param probe: How driver processes are seen; by default those of this host.
    :raises SpecError: wrong use.
    :raises StreamingError: there is no such stream, or it could not be read or steered.
    """
    return _run(open_known(arguments.home), arguments, probe or local_probe())


def _run(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    if arguments.command == "list":
        return commands.list_streams(home, probe, as_json=arguments.json)
    if arguments.command == "live":
        _check_is_there(home, cutover.home_of(home, arguments.stream))
        return live.show_live(home, arguments)
    if arguments.command == "cutover":
        stream = cutover.home_of(home, arguments.stream)
    else:
        stream = lane_named(home, arguments.stream, getattr(arguments, "colour", None))
    _check_is_there(home, stream)
    if arguments.command not in READING:
        ensure_exclusive(home.store)
    if arguments.command == "checkpoint":
        from airflow_streaming.cli.checkpoint import switching  # the others do without

        return switching.run(stream, arguments, person_of(arguments))
    if arguments.command == "doctor":
        return doctor.show_advice(home, stream, cores=arguments.cores, as_json=arguments.json)
    return _COMMANDS[arguments.command](stream, arguments, probe)


def _check_is_there(home: Home, stream: StreamHome) -> None:
    if stream.newest_deployment() is None:
        raise StreamingError(
            why_there_is_none(stream)
            or f"There is no stream {stream.name!r} in {home.store.uri}. Its streams are: "
            f"{', '.join(home.streams()) or 'none'}."
        )


_COMMANDS: Final[dict[str, Callable[[StreamHome, argparse.Namespace, Probe], int]]] = {
    "status": lambda stream, a, probe: commands.show_status(stream, probe, as_json=a.json),
    "start": lambda stream, a, _: commands.start(stream, person_of(a)),
    "stop": lambda stream, a, probe: commands.stop(
        stream, person_of(a), probe, grace=a.grace, wait=a.wait
    ),
    "conf": lambda stream, a, _: conf.show_conf(a, stream),
    "upgrade": lambda stream, a, _: upgrade.run(stream, a, person_of(a)),
    "cutover": lambda stream, a, _: cutover.run(stream, a, person_of(a)),
    "close-circuit": lambda stream, a, _: commands.close_circuit(stream, person_of(a)),
    "declare-dead": lambda stream, a, probe: commands.declare_dead(
        stream, person_of(a), probe, number=a.epoch
    ),
}
