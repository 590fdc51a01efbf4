"""
The command ``top``: the fleet live in a terminal, or the figures of one stream as sparklines.

It reads what ``status`` reads, every few seconds, and decides nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from airflow_streaming.cli.common import OK, hours, seconds
from airflow_streaming.cli.output import is_terminal, show
from airflow_streaming.cli.status import add_fresh, seen_rows, view_stream
from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.home.history import HistoryReader, PartCache
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.durations import duration_text, number_text
from airflow_streaming.model.history import Series, downsample
from airflow_streaming.model.names import base_of, color_of
from airflow_streaming.reports.report import Heading, Report, code, report_of, table, value
from airflow_streaming.reports.streams import age_words
from airflow_streaming.reports.terminal import masked
from airflow_streaming.services.fleet_rows import FleetRow
from airflow_streaming.services.fleet_writer import row_of
from airflow_streaming.services.streams import Probe
from airflow_streaming.storage.one_look import Listing, OneLook, look_at_each
from airflow_streaming.supervision.stream_status import Level, StreamStatus

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

BARS: Final = "▁▂▃▄▅▆▇█"
WIDTH: Final = 48
"""Characters of a sparkline, each a bucket of the range."""
_HEAD: Final = 4
"""Lines of the screen beside the rows: title, heads, caption and a spare line."""
WIDEST: Final = 10_000
"""Columns without a terminal: lines for programs are not wrapped."""
FIGURES: Final = (
    ("input_rate", "input rows/s"),
    ("processing_rate", "processed rows/s"),
    ("duration_ms", "batch ms"),
    ("watermark_delay_s", "watermark delay s"),
    ("state_rows", "state rows"),
    ("state_bytes", "state bytes"),
)
_STYLES: Final = {
    Level.DOWN: "bold red",
    Level.BAD: "red",
    Level.WARN: "yellow",
    Level.BUSY: "cyan",
    Level.WELL: "green",
    Level.OFF: "dim",
}

_COLUMNS: Final = (
    ("stream", "left"),
    ("state", "left"),
    ("in/s", "right"),
    ("out/s", "right"),
    ("backlog", "right"),
    ("batch", "right"),
    ("restarts 24 h", "right"),
    ("spark", "left"),
    ("reason", "left"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument(
        "stream", nargs="?", metavar="STREAM", help="one stream (default: all of the home)"
    )
    parser.add_argument(
        "--every",
        type=seconds,
        default=5.0,
        metavar="SECONDS",
        help="between two looks (default: 5)",
    )
    parser.add_argument("--once", action="store_true", help="look once, print and end")
    parser.add_argument(
        "--hours",
        type=hours,
        default=3.0,
        metavar="N",
        help="range of the figures (default: 3)",
    )
    add_fresh(parser)


def run(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    """
    Show the fleet, or one stream, until Ctrl-C.

    :raises SpecError: rich is not installed.
    """
    if arguments.once and arguments.stream is None and not is_terminal(sys.stdout):
        show(fleet_report(home, probe, fresh=arguments.fresh))
        return OK
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError as err:
        raise SpecError("'top' needs the package rich. Install it, or use 'list'.") from err
    cache, console = PartCache(), Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDEST

    def draw() -> RenderableType:
        expand = console.width < WIDEST
        if arguments.stream is None:
            most = None if arguments.once else max(1, console.size.height - _HEAD)
            return fleet(home, probe, expand=expand, fresh=arguments.fresh, most=most)
        return figures(home, arguments.stream, probe, cache, hours=arguments.hours, expand=expand)

    if arguments.once:
        with console.capture() as drawn:
            console.print(draw())
        # Columns are filled up with spaces, the last one too.
        print("\n".join(line.rstrip() for line in drawn.get().splitlines()))
        return OK
    with Live(draw(), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(max(1.0, arguments.every))
            live.update(draw(), refresh=True)


def fleet(
    home: Home,
    probe: Probe,
    *,
    expand: bool = True,
    fresh: bool = True,
    most: int | None = None,
) -> Table:
    """
    Return a row for each stream, the most urgent first.

    :param expand: It is as wide as the terminal, and not as its text.
    :param fresh: Look at each stream and use no row of a trigger.
    :param most: Rows that fit on the screen; default: all.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"{home.store.uri}  {datetime.now(UTC):%H:%M:%S} UTC",
        title_justify="left",
        expand=expand,
        box=None,
    )
    for name, justify in _COLUMNS:
        table.add_column(name, justify=justify, no_wrap=name != "reason")  # type: ignore[arg-type]
    rows = _rows(home, probe, fresh=fresh)
    for level, cells in rows[:most]:
        table.add_row(*(Text(masked(cell)) for cell in cells), style=_STYLES[level])
    if most is not None and len(rows) > most:
        table.caption = f"{len(rows) - most} more"
    return table


def fleet_report(home: Home, probe: Probe, *, fresh: bool = True) -> Report:
    """Return the rows for a pipe or a file; rich takes 1.5 ms for each."""
    title = Heading((code(home.store.uri), f"  {datetime.now(UTC):%H:%M:%S} UTC"))
    rows = (map(value, cells) for _, cells in _rows(home, probe, fresh=fresh))
    numbers = ", ".join(name for name, justify in _COLUMNS if justify == "right")
    return report_of([title, table((name for name, _ in _COLUMNS), rows, numbers)])


def _rows(home: Home, probe: Probe, *, fresh: bool) -> list[tuple[Level, list[str]]]:
    """Return the level and the cells of each stream, the most urgent first, then by name."""
    folders = Listing(home.store.names(""))
    seen = {
        base_of(lane): row
        for lane, row in seen_rows(home, folders, fresh=fresh).items()
        if row.is_live
    }

    def look(name: str) -> tuple[Level, list[str]]:
        try:
            found = _status(Home(OneLook(home.store, folders)), name, probe)
        except StreamingError as err:
            return Level.BAD, [name, "unreadable", *[""] * 6, str(err)]
        return found.standing.level, _cells(name, row_of(found))

    unseen = [name for name in folders.names if base_of(name) not in seen]
    names = [name for name in home.streams(unseen) if color_of(name) == "blue"]
    looked = look_at_each(home.store, look, names, may_fork=True)
    now = datetime.now(UTC)
    told = [
        (row.level, _cells(name, row, age_words(row.seen_at, now))) for name, row in seen.items()
    ]
    return sorted([*looked, *told], key=lambda row: (row[0].rank, row[1][0]))


def _status(home: Home, name: str, probe: Probe) -> StreamStatus:
    return view_stream(home.stream(live_lane(home, name)), probe, patience=0.0, events=0).status


def _cells(name: str, row: FleetRow, age: str = "") -> list[str]:
    return [
        name,
        row.standing.words,
        _number(row.input_rate),
        _number(row.processing_rate),
        backlog_text(row.backlog),
        "" if row.batch_ms is None else duration_text(row.batch_ms / 1000),
        "" if row.restarts_24h is None else str(row.restarts_24h),
        row.spark,
        f"{row.reason} (seen {age})" if age else row.reason,
    ]


def _number(value: float | None) -> str:
    return "" if value is None else number(value)


def backlog_text(backlog: Mapping[str, float | None]) -> str:
    """Return the backlog in every unit that a source reports; records without their unit."""
    values = {unit: number(amount) for unit, amount in backlog.items() if amount is not None}
    return ", ".join(
        text if unit == "records" else f"{text} {unit}" for unit, text in values.items()
    )


def figures(
    home: Home, name: str, probe: Probe, cache: PartCache, *, hours: float, expand: bool = True
) -> Table:
    """
    Return the figures of one stream as sparklines, with their least, newest and greatest value.

    :param expand: As of ``fleet``.
    """
    from rich.table import Table
    from rich.text import Text

    stream = home.stream(live_lane(home, name))
    now = time.time()
    begin = now - hours * 3600
    found = HistoryReader(stream, cache).read(begin, now)
    standing = _status(home, name, probe).standing
    title = masked(f"{name}  {standing.words}: {standing.reason}")
    table = Table(title=title, title_justify="left", box=None, expand=expand)
    for head in ("query", "figure", f"last {hours:g} h", "least", "now", "greatest"):
        table.add_column(head, no_wrap=True)
    for series in downsample(found.buckets, begin=begin, end=now, count=WIDTH):
        for key, label in [*FIGURES, *_backlogs(series)]:
            values = [value for value in series.lasts.get(key, ()) if value is not None]
            if not values:
                continue
            lows = [value for value in series.lows[key] if value is not None]
            highs = [value for value in series.highs[key] if value is not None]
            cells = (min(lows), values[-1], max(highs))
            table.add_row(
                Text(masked(series.query)),
                label,
                sparkline(values),
                *map(number, cells),
            )
    return table


def _backlogs(series: Series) -> list[tuple[str, str]]:
    return [(key, key.replace("_", " ")) for key in series.lasts if key.startswith("backlog_")]


def sparkline(values: Sequence[float]) -> str:
    """Return values as bars, the least of them zero or below."""
    low, high = min(0.0, *values), max(values)
    if high <= low:
        return BARS[0] * len(values)
    last = len(BARS) - 1
    return "".join(BARS[round((value - low) / (high - low) * last)] for value in values)


def number(value: float) -> str:
    """Return a figure in a few characters: ``950``, ``1.2k``, ``3.4M``."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{number_text(value / limit)}{unit}"
    return number_text(value)
