"""Servers as processes of this host, bound to the loopback address and ended with the test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.patience import PATIENCE, tail, until


@contextlib.contextmanager
def running(
    command: Sequence[str], folder: Path, *, is_ready: Callable[[], bool]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block; its words go to a log in the folder."""
    log = folder / "server.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(
            is_ready,
            f"{command[0]} being ready",
            seen=lambda: tail(log),
            failing=lambda: process.poll() is not None and "it has ended.",
            every=0.05,
        )
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and whatever it is a wrapper of; nothing of its group is left."""
    group, deadline = process.pid, time.monotonic() + PATIENCE
    with contextlib.suppress(ProcessLookupError):
        # SIGTERM: the broker saves its topics when asked to end.
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < deadline:
            process.poll()  # a child that nobody has waited for still counts as a member
            os.killpg(group, 0)
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)
    process.wait()


def answers(url: str) -> bool:
    """Tell whether an HTTP server gives the page."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310  # a server of ours
            return bool(answer.status == 200)
    except OSError:
        return False
