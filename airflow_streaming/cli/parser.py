"""The arguments of ``airflow-streaming``; those of larger commands are in their own modules."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Final

from airflow_streaming import __version__
from airflow_streaming.cli import compare, conf, cutover, doctor, live, rehearse, upgrade
from airflow_streaming.cli.checkpoint import arguments as checkpoint_arguments
from airflow_streaming.cli.gate import arguments as gate_arguments
from airflow_streaming.cli.lane import add_colour

HOME_VARIABLE: Final = "AIRFLOW_STREAMING_HOME"
DEFAULT_GRACE: Final = 60.0
"""Seconds; the default of ``StreamSpec.stop_grace``."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="airflow-streaming",
        description="Look at streams and steer them through the records in their home.",
        epilog="Exit codes: 0 all right, 1 a problem (an unknown stream is one), 2 wrong use, "
        "3 nothing is proved either way (compare).",
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


def parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse, with whatever follows ``--`` as arguments of a script."""
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
