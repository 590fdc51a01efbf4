"""Blackouts: times of day in which no living stream is restarted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_DAYS_A_WEEK: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackout:
    """
    A time of day in which a verdict restarts nothing that lives.

    A stream whose driver has ended is brought back all the same: it does nothing for anybody.
    It goes by the clock on the wall there: an hour that is skipped in spring has no part in it, and
    one that comes twice in autumn counts both times.

    :param start: Begin, ``HH:MM``.
    :param end: End, ``HH:MM``; before ``start`` it is on the next day, equal to it 24 hours later.
    :param days: Days on which it begins, 0 for Monday to 6 for Sunday; empty for every day.
    :param timezone: Name of the time zone of ``start`` and ``end``.
    """

    start: str
    end: str
    days: tuple[int, ...] = ()
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        for moment in (self.start, self.end):
            if not _TIME.fullmatch(moment):
                raise ValueError(f"{moment!r} is no time of day; write it as HH:MM.")
        if any(not 0 <= day < _DAYS_A_WEEK for day in self.days):
            raise ValueError("Days of a blackout go from 0 (Monday) to 6 (Sunday).")
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError) as err:
            raise ValueError(f"There is no time zone {self.timezone!r}.") from err

    def ends_at(self, now: datetime) -> datetime | None:
        """Return when the blackout that holds now is over; ``None`` outside of one."""
        local = now.astimezone(ZoneInfo(self.timezone))
        wall = local.replace(tzinfo=None)
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        for day in (wall.date() - timedelta(days=1), wall.date()):
            if self.days and day.weekday() not in self.days:
                continue
            ends = datetime.combine(day + timedelta(days=end <= start), end)
            if datetime.combine(day, start) <= wall < ends:
                return ends.replace(tzinfo=local.tzinfo, fold=local.fold)
        return None
