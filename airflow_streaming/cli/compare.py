"""
The command ``airflow-streaming compare``: whether two outputs hold the same.

Exit codes: 0 they do, 1 they differ, 2 wrong use, 3 it could not be told.
"""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from airflow_streaming.cli.argument_types import pair, place
from airflow_streaming.core.times import parse_time
from airflow_streaming.exceptions import RecordError

_HOUR: Final = 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.set_defaults(run=run)
    for colour, what in (("blue", "what is trusted"), ("green", "what is compared with it")):
        parser.add_argument(
            f"--{colour}", type=place, required=True, metavar="URI", help=f"output: {what}"
        )
    parser.add_argument(
        "--runtime",
        required=True,
        metavar="NAME_OR_PATH",
        help="the Spark to read with: a name in AIRFLOW__STREAMING__RUNTIMES, or a folder",
    )
    _add_terms(parser)
    _add_bound(parser)
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=1800.0,
        metavar="SECONDS",
        help="time it may take (default: %(default)s)",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the report there, as Markdown"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_terms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", default="parquet", help="of both outputs (default: %(default)s)"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        type=pair,
        metavar="KEY=VALUE",
        help="of the reader; may be repeated; 'schema' gives the columns",
    )
    for name, what in (
        ("key", "by which rows belong together"),
        ("sum", "to be summed by bucket and key"),
        ("ignore", "that may differ, or be in one of the two only"),
    ):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="COLUMN",
            help=f"column {what}; may be repeated",
        )
    parser.add_argument("--time", default="", metavar="COLUMN", help="column with the event time")
    parser.add_argument(
        "--bucket",
        type=_seconds,
        default=_HOUR,
        metavar="SECONDS",
        help="length of a time bucket (default: %(default)s)",
    )
    parser.add_argument("--full", action="store_true", help="compare every row as well")
    parser.add_argument(
        "--tolerance",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="relative difference of a sum that counts as none, such as 0.001",
    )
    parser.add_argument(
        "--least-rows",
        type=int,
        default=1,
        metavar="N",
        help="with fewer in the common time nothing can be told (default: %(default)s)",
    )


def _add_bound(parser: argparse.ArgumentParser) -> None:
    for name, what in (
        ("since", "from when on both are complete; default: as the outputs tell"),
        ("until", "until when both are complete; default: as the outputs tell"),
    ):
        parser.add_argument(
            f"--{name}", type=_time, metavar="TIME", help=f"{what} (ISO 8601, zone)"
        )
    parser.add_argument(
        "--settled",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="leave out rows that are newer than this before the end of the common time",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command; see ``comparing_outputs.run``."""
    # Not at the top: the other commands do without all that starts a Spark.
    from airflow_streaming.cli import comparing_outputs

    return comparing_outputs.run(arguments)


def _time(text: str) -> datetime:
    try:
        return parse_time(text, "time")
    except RecordError as err:
        raise argparse.ArgumentTypeError(str(err)) from err


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= timedelta(days=36_500).total_seconds():
        raise ValueError(text)
    return seconds


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to below 1")
    return share
