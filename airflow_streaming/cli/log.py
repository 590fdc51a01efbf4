"""The command ``log``: the end of a driver's output, also after its pod or host is gone."""

from __future__ import annotations

import argparse

from airflow_streaming.cli.common import OK, PROBLEM, positive
from airflow_streaming.cli.output import complain
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher
from airflow_streaming.reports.terminal import printable
from airflow_streaming.supervision.driver_logs import MOST, shown_log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    parser.add_argument(
        "--epoch", type=positive, metavar="N", help="of this epoch (default: the newest)"
    )


def run(stream: StreamHome, arguments: argparse.Namespace, launcher: Launcher) -> int:
    """Print the end of the log; what a driver wrote is shown without control characters."""
    newest = stream.newest_epoch()
    number = arguments.epoch or (newest.number if newest is not None else 0)
    if newest is None or number > newest.number:
        complain(f"Stream {stream.name} has no epoch {number or 1} yet.")
        return PROBLEM
    epoch, launch = stream.epoch(number), stream.launch(number)
    if launch is None:
        complain(f"No driver of epoch {number} of {stream.name} is recorded.")
        return PROBLEM
    # The file that a record names is not opened: what is on this host was kept when it failed.
    log = launcher.logs(epoch, launch, None, MOST)
    try:
        text = shown_log(log, stream.driver_log(number) if log.tail is None else None)
    except LookupError as err:
        complain(str(err))
        return PROBLEM
    for line in text.splitlines():
        print(printable(line))
    return OK
