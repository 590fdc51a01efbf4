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

from airflow_streaming import __version__
from airflow_streaming.cli import commands, compare, conf, cutover, doctor, live, rehearse, upgrade
from airflow_streaming.cli.checkpoint import arguments as checkpoint_arguments
from airflow_streaming.cli.cutover_found import why_there_is_none
from airflow_streaming.cli.gate import arguments as gate_arguments
from airflow_streaming.cli.lane import add_colour, lane_named
from airflow_streaming.cli.look import Probe, local_probe
from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.home.home import Home, StreamHome, open_home
from airflow_streaming.home.probe import ensure_exclusive

HOME_VARIABLE: Final = "AIRFLOW_STREAMING_HOME"
WRONG_USE: Final = 2
CUT_OFF: Final = 141
"""What shells report of a program that was ended by a closed pipe: 128 + SIGPIPE."""
DEFAULT_GRACE: Final = 60.0
"""Seconds; the default of ``StreamSpec.stop_grace``."""

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


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    # argparse takes the script alone for its positional arguments when an option follows it, and
    # then does not know what comes after "--".
    given = list(argv)
    if "--" not in given:
        return parser.parse_args(given)
    cut = given.index("--")
    arguments = parser.parse_args(given[:cut])
    if "arguments" not in arguments:
        return parser.parse_args(given)
    arguments.arguments = [*arguments.arguments, *given[cut + 1 :]]
    return arguments


def _main(argv: Sequence[str] | None, probe: Probe | None) -> int:
    parser = _parser()
    arguments = _parsed(parser, sys.argv[1:] if argv is None else argv)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="airflow-streaming",
        description="Look at streams and steer them through the records in their home.",
        epilog="Exit codes: 0 all right, 1 a problem (an unknown stream is one), 2 wrong use, 3 nothing "
        "is proved either way (compare).",
    )
    parser.add_argument("--version", action="version", version=__version__)
    _add_home(parser, os.environ.get(HOME_VARIABLE))
    kinds = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add(kinds, "list", "list the streams of the home", has_stream=False)
    status = _add(kinds, "status", "show one stream; exit code 1 when it is not well")
    status.add_argument("--json", action="store_true", help="print JSON instead of a table")
    live.add_arguments(_add(kinds, "live", live.ABOUT, has_stream=False))
    doctor.add_arguments(_add(kinds, "doctor", "say what is risky; exit code 1 when anything is"))
    about_conf = "show what the production profile gives Spark, and why"
    conf.add_arguments(_add(kinds, "conf", about_conf, has_stream=False))
    _add_person(_add(kinds, "start", "want the stream running"))
    _add_stop(_add(kinds, "stop", "want the stream stopped, and ask its driver to stop"))
    _add_person(_add(kinds, "close-circuit", "let a stream run again that was given up"))
    dead = _add(kinds, "declare-dead", "vouch that the driver of the newest epoch is gone")
    dead.add_argument("--epoch", type=int, required=True, metavar="N", help="the newest epoch")
    _add_person(dead, must_say_why=True)
    verbs = _add(kinds, "checkpoint", checkpoint_arguments.ABOUT, has_stream=False)
    checkpoint_arguments.add_verbs(verbs, _add_person)
    gate_arguments.add_plan(_add(kinds, "plan", gate_arguments.ABOUT_PLAN, has_stream=False))
    gate_arguments.add_gate(_add(kinds, "gate", gate_arguments.ABOUT_GATE, has_stream=False))
    upgrade.add_arguments(_add(kinds, "upgrade", upgrade.ABOUT, has_stream=False), _add_person)
    cutover.add_arguments(_add(kinds, "cutover", cutover.ABOUT, has_stream=False), _add_person)
    rehearse.add_arguments(_add(kinds, "rehearse", rehearse.ABOUT, has_stream=False))
    compare.add_arguments(_add(kinds, "compare", compare.ABOUT, has_stream=False))
    return parser


def _add(
    kinds: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    *,
    has_stream: bool = True,
) -> argparse.ArgumentParser:
    parser = kinds.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    _add_home(parser, argparse.SUPPRESS)
    if has_stream:
        parser.add_argument("stream", metavar="STREAM", help="name of the stream")
        add_colour(parser)
    return parser


def _add_home(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument(
        "--home",
        default=default,
        metavar="URI",
        help=f"folder or URI with the records of all streams (default: ${HOME_VARIABLE})",
    )


def _add_stop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grace",
        type=_seconds,
        default=DEFAULT_GRACE,
        metavar="SECONDS",
        help="how long the driver may look for a batch boundary (default: %(default)s)",
    )
    parser.add_argument(
        "--wait", type=_seconds, metavar="SECONDS", help="wait until the driver is proved down"
    )
    _add_person(parser)


def _add_person(parser: argparse.ArgumentParser, *, must_say_why: bool = False) -> None:
    parser.add_argument("--by", metavar="NAME", help="who acts (default: the user of this host)")
    parser.add_argument(
        "--reason",
        required=must_say_why,
        default="No reason was given.",
        metavar="TEXT",
        help="why, for the record",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 10_000_000:
        raise ValueError(text)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
