"""``airflow-streaming check``: whether this host has what streams need, thing by thing."""

from __future__ import annotations

import argparse
import socket
from typing import Final

from airflow_streaming.advice.installation import CheckOutcome, judge, worst
from airflow_streaming.advice.installation_probes import gather
from airflow_streaming.cli.common import INCONCLUSIVE, OK, PROBLEM, add_json, place_of
from airflow_streaming.cli.output import answer
from airflow_streaming.model.codec import encode
from airflow_streaming.reports.installation import installation_report

_CODES: Final = {CheckOutcome.PROBLEM: PROBLEM, CheckOutcome.UNKNOWN: INCONCLUSIVE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.set_defaults(run=run)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check everything, and print a line for each."""
    lines = judge(gather([place_of(arguments.home)] if arguments.home else []))
    host = socket.gethostname()
    answer(
        installation_report(host, lines),
        {"host": host, "outcome": worst(lines).value, "checks": [encode(one) for one in lines]},
        as_json=arguments.json,
    )
    found = {line.outcome for line in lines}
    return next((code for outcome, code in _CODES.items() if outcome in found), OK)
