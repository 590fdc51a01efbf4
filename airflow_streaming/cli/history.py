"""
The commands ``events``, the timeline of a stream with filters, and ``log``, the output of its driver.

The timeline lists the acts of the provider and the commands of users, the newest last, as a log does. ``log`` shows
the end of a driver's output also after its pod or host is gone.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from airflow_streaming.cli.common import OK, PROBLEM, hours, positive
from airflow_streaming.cli.output import complain, is_terminal, notice, show_json
from airflow_streaming.exceptions import HomeUnavailable, closed
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import DriverLog, Launcher
from airflow_streaming.model.records.control import Event, EventKind
from airflow_streaming.reports.terminal import clock, masked, printable
from airflow_streaming.supervision import driver_logs
from airflow_streaming.supervision.driver_logs import added, end_of_log, shown_log

_MESSAGE_AT: Final = 43
"""Column at which the message of a line begins."""
_POLL_SECONDS: Final = 2


def add_events(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    parser.add_argument(
        "--kind",
        action="append",
        choices=[kind.value for kind in EventKind],
        metavar="KIND",
        help=f"only these kinds; may be repeated: {', '.join(kind.value for kind in EventKind)}",
    )
    parser.add_argument(
        "--by", metavar="TEXT", help="only acts of users and tasks whose name has this text"
    )
    parser.add_argument("--contains", metavar="TEXT", help="only lines with this text")
    parser.add_argument("--since", type=hours, metavar="HOURS", help="only the last hours")
    parser.add_argument(
        "--last", type=positive, default=50, metavar="N", help="at most N (default: 50)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")


def show_events(stream: StreamHome, arguments: argparse.Namespace) -> int:
    """Print the events that pass the filters."""
    found = [*selected(stream.events(10_000), arguments, datetime.now(UTC))][-arguments.last :]
    if arguments.json:
        values = {"stream": stream.name, "events": [event.to_dict() for event in found]}
        show_json(values)
        return OK
    width = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
    for event in found:
        print(wrapped(masked(line(event)), width))
    if not found:
        print(f"Nothing on the timeline of {stream.name} matches.")
    return OK


def wrapped(text: str, width: int | None) -> str:
    """Return a line in the width of a terminal, the rest below its message; whole without a width."""
    if width is None or width < _MESSAGE_AT + 20:
        return text
    return textwrap.fill(text, width, subsequent_indent=" " * _MESSAGE_AT)


def line(event: Event) -> str:
    epoch = f" (epoch {event.epoch})" if event.epoch else ""
    return f"{clock(event.at)}  {event.event.value:16}  {event.message}{epoch}  [{event.by}]"


def selected(events: list[Event], arguments: argparse.Namespace, now: datetime) -> Iterator[Event]:
    """Yield the events that pass every filter."""
    since = None if arguments.since is None else now - timedelta(hours=arguments.since)
    for event in events:
        if arguments.kind and event.event.value not in arguments.kind:
            continue
        if arguments.by and arguments.by.lower() not in event.by.lower():
            continue
        if arguments.contains and arguments.contains.lower() not in line(event).lower():
            continue
        if since is None or event.at >= since:
            yield event


def add_log(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    parser.add_argument(
        "--epoch", type=positive, metavar="N", help="of this epoch (default: the newest driver)"
    )
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="print new lines until Ctrl-C, also of later epochs",
    )


def show_log(stream: StreamHome, arguments: argparse.Namespace, launcher: Launcher) -> int:
    """Print the end of the log without control characters."""
    number = arguments.epoch or _newest_launched(stream)
    if arguments.follow:
        follow_log(stream, launcher, number or 1, _pause)
    newest = stream.newest_epoch()
    if newest is None or number > newest.number:
        complain(f"Stream {stream.name} has no epoch {number or 1} yet.")
        return PROBLEM
    epoch, launch = stream.epoch(number), stream.launch(number)
    if launch is None:
        complain(f"No driver of epoch {number} of {stream.name} is recorded.")
        return PROBLEM
    log = end_of_log(launcher, stream, epoch, launch)
    try:
        text = shown_log(log, stream.driver_log(number) if log.tail is None else None)
    except LookupError as err:
        complain(str(err))
        return PROBLEM
    _print_lines(text)
    return OK


def _newest_launched(stream: StreamHome) -> int:
    """Return the newest epoch with a driver, else the newest epoch; 0 before the first."""
    newest = stream.newest_epoch()
    if newest is None:
        return 0
    older = newest.number - 1
    is_recorded = stream.launch(newest.number) is not None or older == 0
    return older if not is_recorded and stream.launch(older) is not None else newest.number


def _pause() -> None:
    time.sleep(_POLL_SECONDS)


def follow_log(
    stream: StreamHome, launcher: Launcher, number: int, pause: Callable[[], None]
) -> NoReturn:
    """Print the output of a stream's drivers from an epoch on."""
    followed = FollowedLog(stream, launcher, number)
    while True:
        try:
            for text in followed.look():
                _print_lines(text)
            sys.stdout.flush()
        except HomeUnavailable as err:
            followed.say(f"{closed(str(err))} The command looks again.")
        pause()


def _print_lines(text: str) -> None:
    for line in text.splitlines():
        print(printable(line))


class FollowedLog:
    """
    Follows the output of a stream's drivers from an epoch on.

    :param number: The first epoch.
    """

    def __init__(self, stream: StreamHome, launcher: Launcher, number: int) -> None:
        self._stream, self._launcher, self._number = stream, launcher, number
        self._seen: DriverLog | None = None
        self._rest = b""
        self._said = ""

    def look(self) -> Iterator[str]:
        """Yield the whole lines since the last look."""
        # The newest epoch first: its driver starts when the one before it has written its last line.
        newest = self._stream.newest_epoch()
        if newest is None:
            self.say(f"Stream {self._stream.name} has no epoch yet; its first driver is awaited.")
            return
        while self._number <= newest.number:
            yield from self._new_lines(is_last=self._number < newest.number)
            if self._number == newest.number:
                return
            self._number, self._seen, self._rest = self._number + 1, None, b""

    def _new_lines(self, *, is_last: bool) -> Iterator[str]:
        epoch, launch = self._stream.epoch(self._number), self._stream.launch(self._number)
        if launch is None:
            return
        log = end_of_log(self._launcher, self._stream, epoch, launch)
        if log.tail is None:
            yield from self._kept(log)
            return
        if self._seen is None:
            yield f"==> epoch {self._number}: {log.place} <=="
        text = self._rest + added(self._seen, log)
        whole = len(text) if is_last else text.rfind(b"\n") + 1
        self._seen, self._rest = log, text[whole:]
        if whole:
            yield driver_logs.masked(text[:whole])

    def _kept(self, log: DriverLog) -> Iterator[str]:
        kept = self._stream.driver_log(self._number) if self._seen is None else None
        if kept is not None:
            self._seen = DriverLog(place=kept.place, tail=kept.text.encode(), size=kept.size)
            yield f"==> epoch {self._number}: {shown_log(log, kept)}"
            return
        if self._seen is None:
            place = f"{log.place}: {log.trouble}" if log.trouble else log.place
            self.say(closed(f"The log of epoch {self._number} cannot be read at {place}"))

    def say(self, text: str) -> None:
        """Print a remark beside the log, and the same one only once in a row."""
        if text != self._said:
            notice(text)
        self._said = text
