"""Progress of long work as lines for a person who waits."""

from __future__ import annotations

import sys
import time
from typing import Final, TextIO

from airflow_streaming.checkpoint.progress import Phase, ProgressNow
from airflow_streaming.cli.checkpoint.report import size

EVERY_SECONDS: Final = 2.0

_UNITS: Final = {Phase.DRILL: "step", Phase.REHEARSAL: "batch", Phase.COMPARE: "output"}
"""Work whose progress is not counted in files."""


class Told:
    """
    Prints at most one line every two seconds, so that short work stays silent.

    :param stream: Where to; by default the error output, which no program reads.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._next = time.monotonic() + EVERY_SECONDS

    def __call__(self, now: ProgressNow) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_SECONDS
        print(line(now), file=self._stream, flush=True)

    def bytes_read(self, done: int, whole: int) -> None:
        """Print how many bytes were read, likewise."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_SECONDS
            print(f"read {size(done)} of {size(whole)}", file=self._stream, flush=True)


def line(now: ProgressNow) -> str:
    """Return progress in words, e.g. ``copy counts: 4,100 of 9,800 files, 3.1 MB of 7.4 MB``."""
    subject = f" {now.subject}" if now.subject else ""
    if now.phase in _UNITS:
        return f"{now.phase}{subject}: {_UNITS[now.phase]} {now.files:,}"
    files = f"{now.files:,}" + (f" of {now.of:,}" if now.of is not None else "")
    told = f"{now.phase}{subject}: {files} files"
    if not now.size and now.of_size is None:
        return told
    return f"{told}, {size(now.size)}" + (
        f" of {size(now.of_size)}" if now.of_size is not None else ""
    )
