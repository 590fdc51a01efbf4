"""
The command ``airflow-streaming``: streams for a person on call without the UI.

Exit codes: 0 all right, 1 a problem (the stream is not well, is unknown, could not be read or
stopped, the doctor found a risk, or a checkpoint or a backup is not sound), 2 wrong use, 3 nothing
is proved either way (``compare``). ``status`` counts a stream as well when it works or waits for
data, and when it is down because it is wanted stopped.

Credentials of a home on an object store come from where its client takes them (such as
``AWS_ACCESS_KEY_ID``); other settings of the client from ``FSSPEC_`` variables (such as
``FSSPEC_S3_ENDPOINT_URL``). They are never arguments, which every user of the host can read.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from airflow_streaming.cli import commands, conf, cutover, doctor, live, upgrade
from airflow_streaming.cli.checkpoint import arguments as checkpoint_arguments
from airflow_streaming.cli.cutover_found import why_there_is_none
from airflow_streaming.cli.lane import lane_named
from airflow_streaming.cli.look import Probe, local_probe
from airflow_streaming.cli.parser import HOME_VARIABLE, build_parser, parsed
from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.home.home import Home, StreamHome, open_home
from airflow_streaming.home.probe import ensure_exclusive

WRONG_USE: Final = 2
CUT_OFF: Final = 141
"""What shells report of a program that was ended by a closed pipe: 128 + SIGPIPE."""
READING: Final = frozenset({"list", "status", "conf", "doctor"})


def main(argv: Sequence[str] | None = None, *, probe: Probe | None = None) -> int:
    """
    Run one command and return its exit code.

    :param argv: Arguments without the program's name; by default those of the process.
    :param probe: How driver processes are seen; by default those of this host.
    """
    try:
        return _main(argv, probe)
    except BrokenPipeError:
        # Whoever read along, such as ``head``, has seen enough. Python would complain once more
        # when it flushes the output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CUT_OFF


def _main(argv: Sequence[str] | None, probe: Probe | None) -> int:
    parser = build_parser()
    arguments = parsed(parser, sys.argv[1:] if argv is None else argv)
    needs_home = _needs_home(arguments)
    if needs_home and not arguments.home:
        parser.error(f"which home? Give --home, or set {HOME_VARIABLE}.")
    try:
        if not needs_home:
            return _run_without_home(arguments)
        # A home that was misspelt is not made by asking for a stream in it.
        home = open_home(arguments.home, probe=False)
        return _run(home, arguments, probe or local_probe())
    except SpecError as err:
        return _refuse(arguments, err, WRONG_USE)
    except StreamingError as err:
        return _refuse(arguments, err, commands.PROBLEM)


def _refuse(arguments: argparse.Namespace, err: StreamingError, code: int) -> int:
    print(f"airflow-streaming: {err}", file=sys.stderr)
    if getattr(arguments, "json", False):
        print(json.dumps({"error": str(err)}, indent=2))
    return code


def _needs_home(arguments: argparse.Namespace) -> bool:
    if arguments.command == "checkpoint":
        return checkpoint_arguments.needs_home(arguments)
    if "run" in arguments:
        return False
    return arguments.command != "conf" or arguments.stream is not None


def _run_without_home(arguments: argparse.Namespace) -> int:
    if arguments.command == "conf":
        return conf.show_conf(arguments, None)
    if "run" in arguments:
        return int(arguments.run(arguments))
    # Not at the top: the other commands do without all that reads and writes checkpoints.
    from airflow_streaming.cli.checkpoint import verbs

    return verbs.run(arguments, _person(arguments) if "by" in arguments else None)


def _run(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    if arguments.command == "list":
        return commands.list_streams(home, probe)
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
        from airflow_streaming.cli.checkpoint import switching

        return switching.run(stream, arguments, _person(arguments))
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
    "start": lambda stream, a, _: commands.start(stream, _person(a)),
    "stop": lambda stream, a, probe: commands.stop(
        stream, _person(a), probe, grace=a.grace, wait=a.wait
    ),
    "conf": lambda stream, a, _: conf.show_conf(a, stream),
    "upgrade": lambda stream, a, _: upgrade.run(stream, a, _person(a)),
    "cutover": lambda stream, a, _: cutover.run(stream, a, _person(a)),
    "close-circuit": lambda stream, a, _: commands.close_circuit(stream, _person(a)),
    "declare-dead": lambda stream, a, probe: commands.declare_dead(
        stream, _person(a), probe, number=a.epoch
    ),
}


def _person(arguments: argparse.Namespace) -> commands.Person:
    return commands.Person(name=arguments.by or _user(), reason=arguments.reason)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container often runs under a number that has no name.
        return f"user {os.getuid()}"


if __name__ == "__main__":
    sys.exit(main())
