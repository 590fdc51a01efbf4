"""Finding and killing processes, with proof."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import psutil


def kill_group(leader: int) -> None:
    """Kill what is left of a process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def processes_with(variable: str, value: str) -> Iterator[psutil.Process]:
    """Yield the living processes that have an environment variable of that value."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(variable) != value:
                continue
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process
