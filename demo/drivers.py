"""How many drivers are alive at once? Counted from the process table, not from any record."""

from __future__ import annotations

import contextlib
import threading
from itertools import pairwise
from pathlib import Path

PROCESSES = Path("/proc")


class DriverCount(threading.Thread):
    """
    Looks again and again which drivers of one home are alive, and remembers the most at once.

    A driver is one token: the JVM and the Python process of an epoch carry the same.

    :param home: The home on the drivers' command lines.
    :param every: Seconds between two looks.
    """

    def __init__(self, home: Path, *, every: float = 0.2) -> None:
        super().__init__(name="driver-count", daemon=True)
        self._home, self._every = str(home), every
        self._stopping = threading.Event()
        self.looks = 0
        self.most = 0

    def run(self) -> None:
        while not self._stopping.wait(self._every):
            self.most = max(self.most, len(self.alive()))
            self.looks += 1

    def stop(self) -> None:
        """Look no more; returns when the thread has ended."""
        self._stopping.set()
        self.join()

    def alive(self) -> dict[str, list[int]]:
        """Return the process ids by token; a zombie has no command line and does not count."""
        found: dict[str, list[int]] = {}
        for folder in PROCESSES.iterdir():
            if not folder.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                pairs = [*pairwise(arguments)]
                if ("--home", self._home) in pairs:
                    tokens = [value for option, value in pairs if option == "--token"]
                    for token in tokens[:1]:
                        found.setdefault(token, []).append(int(folder.name))
        return found
