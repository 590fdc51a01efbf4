"""
The arguments of ``airflow-streaming``; those of larger commands are in their own modules.

A command learns its arguments when it is chosen. So a run loads what its own command needs and
nothing of the others: that is half of what a short command takes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from airflow_streaming import __version__
from airflow_streaming.cli.person import WRONG_USE

HOME_VARIABLE: Final = "AIRFLOW_STREAMING_HOME"
DEFAULT_GRACE: Final = 60.0
"""Seconds; the default of ``StreamSpec.stop_grace``."""

Fill = Callable[[argparse.ArgumentParser], None]
"""Adds the arguments of one command."""


class _WrongUse(SystemExit):
    """The end of a command whose arguments cannot be; a person was told."""

    def __init__(self, message: str) -> None:
        super().__init__(WRONG_USE)
        self.message = message


class _Parser(argparse.ArgumentParser):
    """A parser that is filled when it is first used, and shows its own usage when it is misused."""

    fill: Fill | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        fill, self.fill = self.fill, None
        if fill is not None:
            fill(self)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            # Left to argparse, the outermost parser complains, which knows no option of a verb.
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        raise _WrongUse(message)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(
        prog="airflow-streaming",
        description="Look at streams and steer them through the records in their home.",
        epilog="Exit codes: 0 all right, 1 a problem (an unknown stream is one), 2 wrong use, "
        "3 nothing is proved either way (gate, compare).",
    )
    parser.add_argument("--version", action="version", version=__version__)
    _add_home(parser, os.environ.get(HOME_VARIABLE))
    kinds = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text, fill in _COMMANDS:
        command = kinds.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        _add_home(command, argparse.SUPPRESS)
        command.fill = fill
    return parser


def parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """
    Parse, with whatever follows ``--`` as arguments of a script.

    :raises SystemExit: for help, or for wrong use, which is told as JSON too where that is asked for.
    """
    try:
        return _parsed(parser, argv)
    except _WrongUse as err:
        own = argv[: argv.index("--")] if "--" in argv else argv
        if "--json" in own:
            print(json.dumps({"error": err.message}, indent=2))
        raise


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


def _add_stream(parser: argparse.ArgumentParser) -> None:
    from airflow_streaming.cli.lane import add_colour

    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    add_colour(parser)


def _add_status(parser: argparse.ArgumentParser) -> None:
    _add_stream(parser)
    _add_list(parser)


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    _add_stream(parser)
    _of("doctor")(parser)


def _add_start(parser: argparse.ArgumentParser) -> None:
    _add_stream(parser)
    _add_person(parser)


def _add_dead(parser: argparse.ArgumentParser) -> None:
    _add_stream(parser)
    parser.add_argument("--epoch", type=int, required=True, metavar="N", help="the newest epoch")
    _add_person(parser, must_say_why=True)


def _add_home(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument(
        "--home",
        default=default,
        metavar="URI",
        help=f"folder or URI with the records of all streams (default: ${HOME_VARIABLE})",
    )


def _add_stop(parser: argparse.ArgumentParser) -> None:
    _add_stream(parser)
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


def _of(module: str, function: str = "add_arguments", *more: object) -> Fill:
    """Return what fills a parser with the arguments that a module of this room declares."""

    def fill(parser: argparse.ArgumentParser) -> None:
        declare = getattr(import_module(f"airflow_streaming.cli.{module}"), function)
        declare(parser, *more)

    return fill


_COMMANDS: Final[tuple[tuple[str, str, Fill], ...]] = (
    ("list", "list the streams of the home", _add_list),
    ("status", "show one stream; exit code 1 when it is not well", _add_status),
    ("live", "show which lane of a stream is live, and what it writes", _of("live")),
    ("doctor", "say what is risky; exit code 1 when anything is", _add_doctor),
    ("conf", "show what the production profile gives Spark, and why", _of("conf")),
    ("start", "want the stream running", _add_start),
    ("stop", "want the stream stopped, and ask its driver to stop", _add_stop),
    ("close-circuit", "let a stream run again that was given up", _add_start),
    ("declare-dead", "vouch that the driver of the newest epoch is gone", _add_dead),
    (
        "checkpoint",
        "read, back up, verify and restore checkpoints",
        _of("checkpoint.arguments", "add_verbs", _add_person),
    ),
    (
        "plan",
        "print the plan of every query that a script would start; starts none",
        _of("gate.arguments", "add_plan"),
    ),
    (
        "gate",
        "say whether a new Spark or new code may go on from a checkpoint",
        _of("gate.arguments", "add_gate"),
    ),
    (
        "upgrade",
        "look at an upgrade in progress, keep it, roll it back, give it up or leave it",
        _of("upgrade", "add_arguments", _add_person),
    ),
    (
        "cutover",
        "look at a cutover in progress, and say what becomes of it",
        _of("cutover", "add_arguments", _add_person),
    ),
    (
        "rehearse",
        "run a new script on a copy of a stream's checkpoints; exit code 1 unless it fits",
        _of("rehearse"),
    ),
    (
        "compare",
        "compare two outputs by time bucket and key; exit code 1 if they differ, 3 if unknown",
        _of("compare"),
    ),
)
