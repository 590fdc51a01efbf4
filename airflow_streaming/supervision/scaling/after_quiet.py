"""
Batches that grow after a quiet time: a source that comes back.

Such a source sends the rows of hours in minutes. Each batch holds the rows that came during the batch before it, so
the batches grow by the same factor until the size follows. Figures of enough ended batches come too late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Protocol


class EndedBatch(Protocol):
    """As much of a batch as its growth needs."""

    @property
    def at(self) -> datetime:
        """Return its start."""

    @property
    def rows(self) -> int:
        """Return the rows it has read."""

    @property
    def seconds(self) -> float:
        """Return its length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """
    The batches since a quiet time.

    :param before: Batches with rows before it.
    :param since: Ended batches after it.
    :param spans_s: Seconds in which the rows of each of them came, and of the batch in work.
    """

    before: Sequence[EndedBatch]
    since: Sequence[EndedBatch]
    spans_s: tuple[float, ...]


def growth_after_quiet(
    full: Sequence[EndedBatch], *, now: datetime, lasts: float, interval: float, quiet: timedelta
) -> Growth | None:
    """
    Return the batches since a quiet time, if each of them takes longer than the processing interval.

    :param full: Ended batches with rows, oldest first.
    :param lasts: Seconds for which the batch in work has lasted.
    :param quiet: Least time without a batch, and least time since then.
    """
    begun = now - timedelta(seconds=lasts)
    first = _first_since_quiet(full, begun, quiet)
    if first is None:
        return None
    since = full[first:]
    started = [*(one.at for one in since), begun]
    # Only a part of an interval may have given rows to the first batch.
    grows = lasts > interval and all(one.seconds > interval for one in since[1:])
    if not grows or now - started[0] < quiet:
        return None
    # Spark looks for rows once an interval, so the rows of the first batch came within one.
    spans = (interval, *((end - begin).total_seconds() for begin, end in pairwise(started)))
    return Growth(before=full[:first], since=since, spans_s=spans)


def _first_since_quiet(full: Sequence[EndedBatch], begun: datetime, quiet: timedelta) -> int | None:
    """Return the place of the first batch after the newest quiet time; the batch in work is behind the last."""
    following = begun
    for place in range(len(full), 0, -1):
        before = full[place - 1]
        if following - (before.at + timedelta(seconds=before.seconds)) >= quiet:
            return place
        following = before.at
    return None
