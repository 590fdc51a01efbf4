"""
Which backups a period keeps: those up to an age, and the newest of each day, week or month.

All functions take the backups newest first, and keep that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.core.checkpoint.backup import Backup

LARGEST_GAP: Final = 4
"""No gap between two neighbours counts for more than this part, a quarter, of the age asked for."""

_LONG: Final = timedelta(days=2)
"""From here on a period is told in days."""


class Period(StrEnum):
    """A part of the calendar, in UTC."""

    DAILY = "daily"
    WEEKLY = "weekly"
    """From Monday to Sunday."""
    MONTHLY = "monthly"


_LABELS: Final = {Period.DAILY: "%Y-%m-%d", Period.WEEKLY: "%G-W%V", Period.MONTHLY: "%Y-%m"}


def younger_than(age: timedelta, members: Iterable[Backup]) -> Iterator[Backup]:
    """
    Return the backups up to an age that is counted in the time they have lived through.

    It is the sum of the gaps between the newest one and the backup, and no gap counts for more
    than a quarter of the age: a clock that jumps, once and however far, makes nothing older by
    more than that.
    """
    lived, newer = timedelta(), None
    for backup in members:
        if newer is not None:
            lived += min(newer.begun_at - backup.begun_at, age / LARGEST_GAP)
        if lived > age:
            return
        yield backup
        newer = backup


def newest_of_each(
    period: Period, members: Sequence[Backup], count: int
) -> Iterator[tuple[Backup, str]]:
    """
    Return the newest backup of each of the last days, weeks or months that have one.

    :param count: How many of them.
    :returns: Each with the name of its day, week or month.
    """
    seen: set[str] = set()
    for backup in members:
        label = label_of(period, backup.begun_at)
        if label in seen:
            continue
        if len(seen) >= count:
            return
        seen.add(label)
        yield backup, label


def label_of(period: Period, moment: datetime) -> str:
    """Return the name of the day, week or month of a moment, e.g. ``2026-W07``."""
    return moment.astimezone(UTC).strftime(_LABELS[period])


def in_words(period: timedelta) -> str:
    """Return a period as messages show it: ``36 hours``, ``7 days``."""
    if period < _LONG:
        return f"{period / timedelta(hours=1):g} hours"
    return f"{period / timedelta(days=1):g} days"
