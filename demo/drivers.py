"""How many drivers of one stream are alive at once? Counted from the process table, not from any record."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path

PROCESSES = Path("/proc")


class DriverCount(threading.Thread):
    """
    Looks again and again which drivers of one home are alive, and remembers the most at once.

    A driver is one token: the JVM and the Python process of an epoch carry the same. Each lane of a stream is a
    stream of its own.

    :param home: The home on the drivers' command lines.
    :param every: Seconds between two looks.
    """

    def __init__(self, home: str, *, every: float = 0.2) -> None:
        super().__init__(name="driver-count", daemon=True)
        self._home, self._every = home, every
        self._stopping = threading.Event()
        self.looks = 0
        self.most = 0

    def run(self) -> None:
        while not self._stopping.wait(self._every):
            self.most = max([self.most, *Counter(stream for stream, _ in self._found()).values()])
            self.looks += 1

    def stop(self) -> None:
        """Look no more; returns when the thread has ended."""
        self._stopping.set()
        self.join()

    def alive(self) -> dict[str, list[int]]:
        """Return the process ids by token; a zombie has no command line and does not count."""
        return {token: pids for (_, token), pids in self._found().items()}

    def _found(self) -> dict[tuple[str, str], list[int]]:
        """Return the process ids by stream and token."""
        found: dict[tuple[str, str], list[int]] = {}
        for folder in PROCESSES.iterdir():
            if not folder.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                pairs = [*pairwise(arguments)]
                if ("--home", self._home) in pairs:
                    named = dict(pairs)
                    if token := named.get("--token"):
                        key = (named.get("--stream", ""), token)
                        found.setdefault(key, []).append(int(folder.name))
        return found
