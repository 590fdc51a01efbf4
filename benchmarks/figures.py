"""How the benchmarks tell their figures: percentiles, tables, and what they were measured on."""

from __future__ import annotations

import math
import os
import platform
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from demo.processes import processes_with
from demo.stage import MARK
from demo.waiting import Say


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text: the first column left, the others right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, ["-" * width for width in widths], *rows)
    )


def machine() -> str:
    """Return one line about when and where."""
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, load {load:.1f}"
    )


def end_all(folder: Path, say: Say) -> int:
    """
    Kill whatever still carries the benchmark's mark; return how many processes remain.

    :param folder: The value of the mark: the benchmark's own folder.
    """
    marked = [p for p in processes_with(MARK, str(folder)) if p.pid != os.getpid()]
    for process in marked:
        process.kill()
    _, left = psutil.wait_procs(marked, timeout=10)
    left = [p for p in processes_with(MARK, str(folder)) if p.pid != os.getpid()]
    say(f"{len(marked)} processes of the benchmark were killed at its end, {len(left)} are left")
    return len(left)


def heed_signals() -> None:
    """Let SIGTERM end the program as Ctrl-C does, through its ``finally`` clauses."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
