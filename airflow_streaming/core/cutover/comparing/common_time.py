"""
The common time of two outputs: from when until when both can hold the same rows.

It ends where either side may still write: at the older watermark, or, where a side has none, at the
last row of the side that is behind. It begins where the output that begins later does; the bucket in
which that happens is left out, because the later side has only a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_streaming.core.cutover.comparing.report import Bound, SideFound
from airflow_streaming.core.cutover.terms import CompareTerms

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonTime:
    """
    A span of event time.

    :param begin: Inclusive; ``None`` for no bound.
    :param end: Exclusive; ``None`` for no bound.
    """

    begin: datetime | None = None
    end: datetime | None = None


def common_time(terms: CompareTerms, bound: Bound, blue: SideFound, green: SideFound) -> CommonTime:
    """Return the time in which two outputs are compared; without a time column all of it."""
    if not terms.time:
        return CommonTime()
    return CommonTime(begin=_begin(terms, bound, blue, green), end=_end(terms, bound, blue, green))


def bucket_of(moment: datetime, length: timedelta) -> datetime:
    """Return the beginning of the bucket that a moment is in; buckets count from 1970 in UTC."""
    return _EPOCH + (moment - _EPOCH) // length * length


def _begin(terms: CompareTerms, bound: Bound, blue: SideFound, green: SideFound) -> datetime | None:
    if bound.since is not None:
        return bound.since
    if blue.first is None or green.first is None:
        return None
    first, later = sorted(bucket_of(moment, terms.bucket) for moment in (blue.first, green.first))
    return first if first == later else later + terms.bucket


def _end(terms: CompareTerms, bound: Bound, blue: SideFound, green: SideFound) -> datetime | None:
    known = list(_ends(bound, blue, green))
    return min(known) - terms.settled if known else None


def _ends(bound: Bound, blue: SideFound, green: SideFound) -> Iterator[datetime]:
    if bound.until is not None:
        yield bound.until
    for watermark, side, other in ((bound.blue, blue, green), (bound.green, green, blue)):
        if watermark is not None:
            yield watermark
        elif bound.until is None and side.last is not None:
            # Where both have come to the same last time, neither is the one that is behind.
            yield side.last + _LEAST if side.last == other.last else side.last
