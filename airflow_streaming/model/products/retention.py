"""
How long a source keeps its data, and when it removes data that a query has not read.

A broker, a cleaner of files, or the maintenance of a table removes old data whether it was read or not. The
oldest unread data and the time for which the source keeps data give the moment of loss. A source that keeps a
number of bytes has no such time; its oldest position moves, and the moment of loss is where it meets the position
of the query.

Every estimate errs on the early side: a broker removes whole segments, so later than it promises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

KEPT_FOR: Final = "spark.airflowStreaming.keptFor"
"""Configuration that declares the retention of sources, see ``parse_kept_for``."""
_UNITS: Final = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_DECLARED: Final = re.compile(r"\s*([^\s;][^;]*?)\s*=\s*(\d+(?:\.\d+)?)\s*(s|min|h|d)\s*")
LEAST_WATCHED: Final = 300.0
"""Seconds that an oldest position is watched before its pace counts: brokers remove data in steps."""
MOST_LOOKS: Final = 64
"""Looks that are remembered; older ones are thinned, so that they always span the whole time."""
SEARCH_ROUNDS: Final = 10
"""Halvings of the time in which the oldest unread record was written: 10 min in a week."""


class LossGap(StrEnum):
    """Why the time to loss of a source is unknown."""

    NOT_MEASURED = "not_measured"
    """Sources of this kind do not tell."""
    NO_RETENTION = "no_retention"
    """Nothing says how long the source keeps its data."""
    NO_REMOVAL = "no_removal"
    """The source keeps a number of bytes, and has removed nothing while it was watched."""
    NO_POSITION = "no_position"
    """This driver has committed no batch yet."""
    KEPT = "kept"
    """The source never removes data by age or size."""
    FAILED = "failed"
    """The source did not answer."""

    @property
    def words(self) -> str:
        return _GAPS[self]


_GAPS: Final = {
    LossGap.NOT_MEASURED: "a source of this kind does not tell its oldest data",
    LossGap.NO_RETENTION: "nothing says how long the source keeps its data",
    LossGap.NO_REMOVAL: "the source has removed nothing while it was watched",
    LossGap.NO_POSITION: "this driver has committed no batch yet",
    LossGap.KEPT: "the source removes no data",
    LossGap.FAILED: "the source did not answer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """
    The future of the data that a query has not read; times in seconds since 1970.

    :param loss_at: When the first unread data is removed. Without unread data, when data that arrives now is.
    :param kept_for: How long the source keeps data, in seconds.
    :param read_until: Everything that the source got before was read.
    :param gap: Why ``loss_at`` is unknown.
    """

    loss_at: float | None = None
    kept_for: float | None = None
    read_until: float | None = None
    gap: LossGap | None = None

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds until data is lost, 0 where that has happened."""
        return None if self.loss_at is None else max(0.0, self.loss_at - now)


def unknown(gap: LossGap) -> Outlook:
    """Return the outlook of a source that does not tell."""
    return Outlook(gap=gap)


def of_age(oldest_unread: float | None, *, kept_for: float | None, now: float) -> Outlook:
    """
    Return the outlook of a source that keeps data for a time.

    :param oldest_unread: When the oldest unread data was written; ``None`` where everything was read.
    :param kept_for: How long data is kept from its writing on; ``None`` where that is unknown.
    """
    since = now if oldest_unread is None else min(oldest_unread, now)
    if kept_for is None:
        return Outlook(read_until=since, gap=LossGap.NO_RETENTION)
    return Outlook(loss_at=since + kept_for, kept_for=kept_for, read_until=since)


class Partition(NamedTuple):
    """
    The positions of a part of a log.

    :param earliest: The oldest position that can be read.
    :param committed: The first position that was not read.
    :param latest: The position that the next record gets.
    :param written_at: When the record at ``committed`` was written, if known.
    """

    earliest: int
    committed: int
    latest: int
    written_at: float | None = None

    @property
    def is_read(self) -> bool:
        """Tell whether nothing is unread."""
        return self.committed >= self.latest

    @property
    def room(self) -> float:
        """Return the share of the kept records that lie before the position of the query."""
        return (self.committed - self.earliest) / max(1, self.latest - self.earliest)


class Look(NamedTuple):
    """The oldest positions of a log at a time, by part."""

    at: float
    earliest: Mapping[str, int]


def remembered(looks: Sequence[Look], newest: Look) -> tuple[Look, ...]:
    """Return the looks with a new one; every second one is forgotten when they are too many."""
    found = (*looks, newest)
    return found if len(found) <= MOST_LOOKS else (*found[:-1:2], newest)


def of_log(
    parts: Mapping[str, Partition],
    looks: Sequence[Look],
    *,
    kept_for: float | None,
    by_size: bool,
    now: float,
) -> Outlook:
    """
    Return the outlook of a log: the part that loses data first counts.

    :param looks: Earlier looks, oldest first.
    :param kept_for: How long the log keeps a record; ``None`` where it does not tell.
    :param by_size: Whether it also keeps a number of bytes only, or may do so.
    """
    unread = {name: part for name, part in parts.items() if not part.is_read}
    since = [part.written_at for part in unread.values()]
    told = [at for at in since if at is not None]
    read_until = now if not unread else min(told) if len(told) == len(since) else None
    ends = [end for name, part in unread.items() if (end := _end(name, part, looks, kept_for, now))]
    ends += [now for part in unread.values() if part.committed < part.earliest]
    if not unread and kept_for is not None:
        ends = [now + kept_for]
    if ends:
        return Outlook(loss_at=min(ends), kept_for=kept_for, read_until=read_until)
    if kept_for is not None:
        gap = LossGap.FAILED
    else:
        gap = LossGap.NO_REMOVAL if by_size else LossGap.KEPT
    return Outlook(kept_for=kept_for, read_until=read_until, gap=gap)


def _end(
    name: str, part: Partition, looks: Sequence[Look], kept_for: float | None, now: float
) -> float | None:
    ends = []
    if kept_for is not None and part.written_at is not None:
        ends.append(part.written_at + kept_for)
    pace = _pace(name, part, looks, now)
    if pace:
        ends.append(now + max(0, part.committed - part.earliest) / pace)
    return min(ends, default=None)


def _pace(name: str, part: Partition, looks: Sequence[Look], now: float) -> float | None:
    """Return by how many positions a second the oldest position moves; ``None`` where it was watched too shortly."""
    first = next((look for look in looks if name in look.earliest), None)
    if first is None or now - first.at < LEAST_WATCHED:
        return None
    return max(0, part.earliest - first.earliest[name]) / (now - first.at)


def soonest(outlooks: Iterable[Outlook]) -> Outlook:
    """Return the outlook of several logs together: the first loss, and the least that was read of each."""
    found = list(outlooks)
    known = [one for one in found if one.loss_at is not None]
    read = [one.read_until for one in found]
    told = [at for at in read if at is not None]
    first = min(known, key=lambda one: one.loss_at or 0.0) if known else found[0]
    return replace(first, read_until=min(told) if len(told) == len(read) else None)


def parse_kept_for(text: str) -> tuple[tuple[str, float], ...]:
    """
    Return the declared retention in seconds, by a part of the source's description.

    :param text: ``PART=TIME`` with commas between, e.g. ``/data/in=7d, s3a://bucket/x=12h``; units s, min, h, d.
    :raises ValueError: the text has another form.
    """
    found = []
    for one in filter(str.strip, text.split(",")):
        match = _DECLARED.fullmatch(one)
        if match is None or not float(match[2]):
            raise ValueError(
                f"{KEPT_FOR} has {one.strip()!r:.80}. Write PART=TIME, e.g. /data/in=7d; units: s, min, h, d."
            )
        found.append((match[1], float(match[2]) * _UNITS[match[3]]))
    return tuple(found)


def kept_for(source: str, declared: Iterable[tuple[str, float]]) -> float | None:
    """Return how long a source keeps its data as declared; of several parts that fit, the least."""
    return min((seconds for part, seconds in declared if part in source), default=None)
