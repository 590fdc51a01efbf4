"""
The output of a command: reports and JSON to stdout; errors, notices and progress to stderr.

A terminal gets ``rich``; a pipe, a file, ``NO_COLOR`` and ``TERM=dumb`` get the plain form, which
is stable and never wrapped.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from airflow_streaming.checkpoints.progress import Phase, ProgressNow
from airflow_streaming.exceptions import closed
from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.reports.report import Report, byte_text
from airflow_streaming.reports.terminal import masked, plain, printable, rendered

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

NAME: Final = "airflow-streaming"
NOT_WRITTEN: Final = 2
"""Exit code when the verdict stands, and the report could not be written to its file."""

EVERY_SECONDS: Final = 2.0
_UNITS: Final = {Phase.DRILL: "step", Phase.REHEARSAL: "batch", Phase.COMPARE: "output"}
"""Work whose progress is not counted in files."""


def show(*reports: Report) -> None:
    """Print reports, with an empty line between two."""
    if not is_terminal(sys.stdout) or os.environ.get("NO_COLOR"):
        print("\n\n".join(map(plain, reports)))
        return
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    for at, report in enumerate(reports):
        if at:
            console.print()
        for part in rendered(report):
            console.print(part, soft_wrap=False)


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that can show more than lines."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def show_json(value: Any, *, sort_keys: bool = False) -> None:
    """Print one JSON object with the secrets in its texts marked."""
    print(json.dumps(_masked(value), indent=2, sort_keys=sort_keys))


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, Mapping):
        return {key: _masked(one) for key, one in value.items()}
    return [_masked(one) for one in value] if isinstance(value, list | tuple) else value


def answer(report: Report, value: Any, *, as_json: bool, sort_keys: bool = False) -> None:
    """Print a result, as a report or as one JSON object."""
    if as_json:
        show_json(value, sort_keys=sort_keys)
    else:
        show(report)


def show_lines(lines: Iterable[str]) -> None:
    """Print sentences, with secrets masked and without terminal control sequences."""
    print("\n".join(map(masked, lines)))


def complain(message: str) -> None:
    """Print an error in the one form that all errors have."""
    first, *rest = message.splitlines() or [""]
    print("\n".join([f"{NAME}: {masked(first)}", *map(masked, rest)]), file=sys.stderr)


notice = complain
"""Prints the reason for a wait; on stderr, because no program reads it."""


def write_page(path: Path | None, markdown: Callable[[], str]) -> bool:
    """Write a page on request; report a failure and return False."""
    if path is None:
        return True
    try:
        path.write_text(markdown(), encoding="utf-8", errors="backslashreplace")
    except OSError as err:
        why = err.strerror or type(err).__name__
        complain(f"The report cannot be written to {path}: {closed(why)}")
        return False
    return True


class Told(Protocol):
    """Shows how far long work is."""

    def __call__(self, now: ProgressNow, /) -> None: ...

    def bytes_read(self, done: int, whole: int) -> None:
        """Show how many bytes were read."""


@contextmanager
def progress(stream: TextIO | None = None) -> Iterator[Told]:
    """
    Show the progress of long work: a bar on a terminal, else a line now and then.

    :param stream: Where to; by default stderr.
    """
    stream = stream or sys.stderr
    if not is_terminal(stream):
        yield ConsoleProgress(stream)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    console = Console(file=stream, markup=False, highlight=False, emoji=False)
    with Progress(*columns, console=console, transient=True) as bars:
        yield BarProgress(bars)


class BarProgress:
    """A bar for each phase of the work."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, now: ProgressNow, /) -> None:
        self._show(f"{now.phase}{now.subject}", line(now), now.files, now.of)

    def bytes_read(self, done: int, whole: int) -> None:
        self._show("read", _bytes_read(done, whole), done, whole)

    def _show(self, key: str, text: str, done: int, whole: int | None) -> None:
        if key not in self._tasks:
            self._tasks[key] = self._bars.add_task("", total=None)
        self._bars.update(
            self._tasks[key], completed=done, total=whole, description=printable(text)
        )


class ConsoleProgress:
    """
    Prints at most one line every two seconds, so that short work stays silent.

    :param stream: Where to; by default stderr.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._next = time.monotonic() + EVERY_SECONDS

    def __call__(self, now: ProgressNow, /) -> None:
        self._print(lambda: line(now))

    def bytes_read(self, done: int, whole: int) -> None:
        self._print(lambda: _bytes_read(done, whole))

    def _print(self, text: Callable[[], str]) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_SECONDS
        print(printable(text()), file=self._stream, flush=True)


def line(now: ProgressNow) -> str:
    """Return progress in words, e.g. ``copy counts: 4,100 of 9,800 files, 3.1 MB of 7.4 MB``."""
    subject = f" {now.subject}" if now.subject else ""
    if now.phase in _UNITS:
        return f"{now.phase}{subject}: {_UNITS[now.phase]} {now.files:,}"
    files = f"{now.files:,}" + (f" of {now.of:,}" if now.of is not None else "")
    done = f"{now.phase}{subject}: {files} files"
    if not now.size and now.of_size is None:
        return done
    whole = f" of {byte_text(now.of_size)}" if now.of_size is not None else ""
    return f"{done}, {byte_text(now.size)}{whole}"


def _bytes_read(done: int, whole: int) -> str:
    return f"read {byte_text(done)} of {byte_text(whole)}"
