"""
What modeled queries read, and what has to come out of it, row by row.

A file arrives every two seconds and is never late beyond the watermark's delay, so that what comes
out of windows does not depend on how files are cut into batches.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random
from typing import Final

EVERY_MS: Final = 2_000
WINDOW_MS: Final = 5_000
DELAY_MS: Final = 2_000
ROWS: Final = 4
KEYS: Final = ("a", "b", "c")

Line = tuple[int, str, int]
"""Event time in milliseconds, key, and the line's own number."""

Out = tuple[int, str]
"""A window's end and a key; for a query without state a line's number."""


@cache
def lines(seed: int, file: int) -> tuple[Line, ...]:
    """Return the lines of one file."""
    chance = Random(f"{seed}/{file}")
    return tuple(
        (
            (file + 1) * EVERY_MS + chance.randrange(-DELAY_MS + 1, EVERY_MS),
            chance.choice(KEYS),
            file * ROWS + number,
        )
        for number in range(ROWS)
    )


def window_of(at_ms: int) -> int:
    """Return the end of the window that a time lies in."""
    return at_ms - at_ms % WINDOW_MS + WINDOW_MS


class Sea:
    """The files that have arrived by now."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.stops_at: float | None = None

    def files(self, now: float) -> int:
        """Return how many files have arrived."""
        until = now if self.stops_at is None else min(now, self.stops_at)
        return int(until * 1000 // EVERY_MS)

    def lines(self, files: range | list[int]) -> list[Line]:
        """Return the lines of some files."""
        return [line for file in files for line in lines(self.seed, file)]

    def expected(
        self, files: int, *, is_stateful: bool, watermark_ms: int
    ) -> Counter[tuple[Out, int]]:
        """Return each row that has to have come out of the first files, with its figure."""
        everything = self.lines(range(files))
        if not is_stateful:
            return Counter(((number, ""), 1) for _, _, number in everything)
        counts = Counter((window_of(at), key) for at, key, _ in everything)
        return Counter((out, n) for out, n in counts.items() if out[0] <= watermark_ms)
