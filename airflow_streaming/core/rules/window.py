"""Sums over a moving window of time, in bounded memory and constant time."""

from __future__ import annotations

from typing import Final

Parts = tuple[float, ...]
"""What one batch gives to a figure; the parts of several batches are added up."""

MAX_SAMPLES: Final = 2_000
"""More than these are paired, so that a window over a day of short batches stays small: its sums
are right, and a batch leaves it together with its neighbour."""

_REBUILD_EVERY: Final = 64
"""Removals, or as many as are left if that is more, after which the room they took is given back
and the sums are taken anew, because subtraction leaves rounding errors."""


class Window:
    """Samples of a moving window, the oldest first, and the sums of their parts."""

    __slots__ = ("_head", "samples", "sums")

    def __init__(self) -> None:
        self.samples: list[tuple[float, Parts]] = []
        self.sums: Parts = ()
        self._head = 0

    @property
    def oldest(self) -> int:
        """Return the index of the oldest sample in the window; there may be none."""
        return self._head

    def add(self, at: float, parts: Parts) -> None:
        """Add a sample, which is not older than any other."""
        self.samples.append((at, parts))
        self.sums = _plus(self.sums, parts) if self.sums else parts
        if len(self.samples) - self._head > MAX_SAMPLES:
            self._thin()

    def drop(self, until: float) -> None:
        """Remove the samples up to and including a time."""
        samples = self.samples
        while self._head < len(samples) and samples[self._head][0] <= until:
            self.sums = _minus(self.sums, samples[self._head][1])
            self._head += 1
        left = len(samples) - self._head
        if self._head and (not left or self._head >= max(_REBUILD_EVERY, left)):
            self._rebuild()

    def _rebuild(self) -> None:
        del self.samples[: self._head]
        self._head = 0
        self.sums = tuple(sum(column) for column in zip(*_parts(self.samples), strict=True))

    def _thin(self) -> None:
        self._rebuild()
        pairs = zip(self.samples[::2], self.samples[1::2], strict=False)
        odd = self.samples[-1:] if len(self.samples) % 2 else []
        self.samples = [(late, _plus(one, two)) for (_, one), (late, two) in pairs] + odd


def _parts(samples: list[tuple[float, Parts]]) -> list[Parts]:
    return [parts for _, parts in samples]


def _plus(one: Parts, two: Parts) -> Parts:
    return tuple([a + b for a, b in zip(one, two, strict=True)])


def _minus(one: Parts, two: Parts) -> Parts:
    return tuple([a - b for a, b in zip(one, two, strict=True)])
