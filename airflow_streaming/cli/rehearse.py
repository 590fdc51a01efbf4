"""
The command ``airflow-streaming rehearse``: a new script on a copy of a stream's checkpoints.

Exit codes: 0 when it went well, 1 when it failed or proved nothing, 2 wrong use, or the report could
not be written.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from airflow_streaming.cli.argument_types import pair, place
from airflow_streaming.core.rehearsal.order import Bounds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command; those of the script stand last, after ``--``."""
    parser.set_defaults(run=run)
    _add_subject(parser)
    parser.add_argument(
        "--query",
        metavar="NAME",
        help="whose checkpoint it is, where a single one is given and the script has more queries",
    )
    parser.add_argument(
        "--script", required=True, metavar="FILE", help="the new version of the script"
    )
    parser.add_argument(
        "--runtime",
        required=True,
        metavar="NAME_OR_PATH",
        help="the Spark it is meant for: a name in AIRFLOW__STREAMING__RUNTIMES, or a folder",
    )
    _add_bounds(parser)
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=pair,
        metavar="KEY=VALUE",
        help="Spark configuration; may be repeated; not for secrets",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the report there, as Markdown"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument(
        "arguments", nargs="*", metavar="ARGUMENT", help="arguments of the script, after --"
    )


def _add_subject(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--checkpoint",
        type=place,
        metavar="URI",
        help="checkpoint of one query, or the folder above those of one application",
    )
    what.add_argument(
        "--backup", nargs=2, metavar=("STORE", "ID"), help="a backup, instead of live checkpoints"
    )
    what.add_argument(
        "--stream", metavar="NAME", help="a stream of the home, with whose pace it is compared"
    )


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--batches",
        type=int,
        default=Bounds().batches,
        metavar="N",
        help="batches of each query (default: %(default)s)",
    )
    parser.add_argument(
        "--until-caught-up", action="store_true", help="go on until all input there is was read"
    )
    parser.add_argument(
        "--quick", action="store_true", help="run one batch again and no more, where one can be"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=Bounds().seconds,
        metavar="SECONDS",
        help="time for all queries together (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command; see ``rehearsing.run``."""
    # Not at the top: the other commands do without all that reads and runs checkpoints.
    from airflow_streaming.cli import rehearsing

    return rehearsing.run(arguments)
