"""Policies of a dag's author: restarts, blackouts and freshness."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, ClassVar, Final, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import (
    Range,
    check_values,
    checked,
    named_fields,
)
from airflow_streaming.model.wire import JsonValue

_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]{1,32}(?:/[A-Za-z0-9_+-]{1,32}){0,2}")
_DAYS_A_WEEK: Final = 7
_DAY_NAMES: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_DAY: Final = rf"(?:[0-7]|{'|'.join(_DAY_NAMES)})"
_CRON: Final = re.compile(
    rf"([0-9]{{1,2}})\s+([0-9]{{1,2}})\s+\*\s+\*\s+(\*|{_DAY}(?:-{_DAY})?(?:,{_DAY}(?:-{_DAY})?)*)",
    re.IGNORECASE,
)
_LAST_MINUTE: Final = 59
_LAST_HOUR: Final = 23
_TICK: Final = timedelta(milliseconds=1)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Blackout:
    """
    A time of day in which no running stream is restarted.

    A stream whose driver has ended is brought back all the same: it does no work. The times are
    local wall-clock times. A time that clocks skip in spring counts as the moment of the change. In
    autumn, the blackout lasts from the first ``start`` to the last ``end``.

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
        check_values(self)
        for moment in (self.start, self.end):
            if not _TIME.fullmatch(moment):
                raise SpecError(f"{moment!r} is not a time of day; write it as HH:MM.")
        if any(not 0 <= day < _DAYS_A_WEEK for day in self.days):
            raise SpecError("Days of a blackout go from 0 (Monday) to 6 (Sunday).")
        # zoneinfo looks for a file of that name, so it must look like one of a zone.
        if not _ZONE.fullmatch(self.timezone) or not _is_zone(self.timezone):
            raise SpecError(f"Unknown time zone {self.timezone!r:.80}.")

    @classmethod
    @checked
    def from_cron(cls, cron: str, lasts: timedelta, *, timezone: str = "UTC") -> Self:
        """
        Return the blackout that begins at the times of a cron expression.

        :param cron: ``MINUTE HOUR * * DAYS``, e.g. ``0 9 * * MON-FRI``: one time of day, on days of the week
            (names, or 0 and 7 for Sunday; ranges and lists). ``6-1`` is Saturday to Monday.
        :param lasts: Its length, at most 24 hours.
        :raises SpecError: the expression has another form.
        """
        found = _CRON.fullmatch(cron.strip())
        if found is None or int(found[1]) > _LAST_MINUTE or int(found[2]) > _LAST_HOUR:
            raise SpecError(
                f"{cron!r:.80} is no cron expression of a blackout. Write MINUTE HOUR * * DAYS, with one minute, one "
                "hour and days of the week, e.g. '0 9 * * MON-FRI'."
            )
        if not timedelta(0) < lasts <= timedelta(days=1) or lasts % timedelta(minutes=1):
            raise SpecError("A blackout lasts whole minutes, 1 minute to 24 hours.")
        begin = datetime(2001, 1, 1, int(found[2]), int(found[1]))  # noqa: DTZ001  # a time of day
        return cls(
            start=f"{begin:%H:%M}",
            end=f"{begin + lasts:%H:%M}",
            days=_days_of(found[3]),
            timezone=timezone,
        )

    def ends_at(self, now: datetime) -> datetime | None:
        """Return when the blackout that holds now is over; ``None`` outside of one."""
        zone = ZoneInfo(self.timezone)
        today = now.astimezone(zone).date()
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        for day in (today - timedelta(days=1), today):
            if self.days and day.weekday() not in self.days:
                continue
            begins = _moment(datetime.combine(day, start), zone, fold=0)
            last = day + timedelta(days=end <= start)
            ends = _moment(datetime.combine(last, end), zone, fold=1)
            if begins <= now < ends:
                return ends.astimezone(zone)
        return None


def _days_of(text: str) -> tuple[int, ...]:
    """Return days as cron writes them, 0 for Sunday, as days of a blackout, 0 for Monday."""
    if text == "*":
        return ()
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = _day_number(first), _day_number(last or first)
        found.update(range(begin, end + 1 + _DAYS_A_WEEK * (end < begin)))
    return tuple(sorted({(day - 1) % _DAYS_A_WEEK for day in found}))


def _day_number(text: str) -> int:
    return int(text) if text.isdecimal() else _DAY_NAMES.index(text.upper())


def _moment(wall: datetime, zone: ZoneInfo, *, fold: int) -> datetime:
    """Return when clocks show a time: the first or, with ``fold=1``, the last time; a skipped one is the change."""
    found = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None) == wall:
        return found
    before, after = (wall.replace(tzinfo=zone, fold=side).astimezone(UTC) for side in (1, 0))
    while after - before > _TICK:
        middle = before + (after - before) / 2
        is_before = middle.astimezone(zone).utcoffset() == before.astimezone(zone).utcoffset()
        before, after = (middle, after) if is_before else (before, middle)
    return after.replace(microsecond=0)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False  # OSError: a folder of zones
    return True


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """
    At most this many restarts in any window of this length.

    :param restarts: How many restarts the window may hold.
    :param window: Length of the sliding window.
    """

    restarts: int
    window: timedelta

    def __post_init__(self) -> None:
        check_values(self)
        if self.window <= timedelta(0):
            raise SpecError("A restart budget needs a positive window.")


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy(JsonValue):
    """
    When a failed stream comes back.

    The first restart after healthy progress is immediate. Each further one waits a random time
    between zero and a bound that starts at ``first_delay`` and doubles up to ``max_delay`` (full
    jitter, so that streams which failed together do not return together).

    A failure is charged to the budgets of its class. A damaged checkpoint, incompatible state, a
    second writer and a wrong configuration are never restarted.

    :param first_delay: Bound of the second wait.
    :param max_delay: Largest bound.
    :param budgets: Restarts allowed per sliding window after failures of the infrastructure, and
        after verdicts; spending any one opens the circuit.
    :param max_outage: How long brokers of a source or sink may be unreachable before the circuit
        opens. Restarts in an outage have this limit and no budget. ``None`` sets no limit.
    :param application_budgets: The same after failures of the application. An empty tuple sets no
        limit, for either.
    :param poison_after: So many failures of one batch in the same way make it a poison batch.
    :param reset_after: A driver that made progress for this long clears the failure count.
    :param reset_batches: ... provided that it also committed this many batches.
    :param half_open_after: Launch a trial automatically this long after the circuit opened;
        ``None`` leaves it to the user.
    :param blackouts: Times of day in which a living stream is not restarted.
    """

    WHAT: ClassVar[str] = "restart policy"

    first_delay: timedelta = timedelta(seconds=5)
    max_delay: timedelta = timedelta(minutes=5)
    budgets: tuple[Budget, ...] = (
        Budget(restarts=5, window=timedelta(minutes=10)),
        Budget(restarts=20, window=timedelta(hours=24)),
    )
    application_budgets: tuple[Budget, ...] = (
        Budget(restarts=3, window=timedelta(minutes=10)),
        Budget(restarts=10, window=timedelta(hours=24)),
    )
    max_outage: timedelta | None = timedelta(hours=6)
    poison_after: int = 3
    reset_after: timedelta = timedelta(minutes=10)
    reset_batches: int = 20
    half_open_after: timedelta | None = None
    blackouts: tuple[Blackout, ...] = ()

    def __post_init__(self) -> None:
        check_values(self)
        if self.first_delay > self.max_delay:
            raise SpecError("A restart policy needs first_delay <= max_delay.")
        if self.half_open_after is not None and self.half_open_after <= timedelta(0):
            raise SpecError("half_open_after must be positive, or the circuit is never open.")
        if self.max_outage is not None and self.max_outage <= timedelta(0):
            raise SpecError("max_outage must be positive; None sets no limit.")
        if self.poison_after < 1:
            raise SpecError("poison_after must be at least 1.")

    def bound(self, consecutive_failures: int) -> timedelta:
        """Return the longest wait before the restart after that many failures in a row."""
        if consecutive_failures <= 1:
            return timedelta(0)
        # In floating point, because a timedelta of some days doubled thirty times overflows.
        doublings = min(consecutive_failures - 2, 60)
        seconds = self.first_delay.total_seconds() * 2.0**doublings
        longest = self.max_delay.total_seconds()
        return self.max_delay if seconds >= longest else timedelta(seconds=seconds)

    def looks_back_to(self, now: datetime) -> datetime:
        """Return the moment before which no decision counts for a budget any more."""
        budgets = self.budgets + self.application_budgets
        windows = [budget.window for budget in budgets] + [self.max_outage or timedelta(0)]
        longest = max(windows)
        begin = datetime.min.replace(tzinfo=UTC)
        return begin if longest >= now - begin else now - longest

    def blackout_until(self, now: datetime) -> datetime | None:
        """Return when the blackout that holds now is over; ``None`` outside of one."""
        ends = [end for blackout in self.blackouts if (end := blackout.ends_at(now)) is not None]
        return max(ends, default=None)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness(JsonValue):
    """
    How much of the time the data of a stream must be on time.

    :param complete_within: At any moment the output is complete up to this long before.
    :param objective: The share of the time in which that holds, e.g. 0.995.
    :param over: The period of the objective and its error budget.
    :param query: The query that counts; default: the one furthest behind.
    :param count_planned_stops: Whether the time of stops and changes that a user has asked for counts.
    """

    WHAT: ClassVar[str] = "freshness"

    complete_within: Annotated[timedelta, Range(above=timedelta(0), most=timedelta(days=7))]
    objective: Annotated[float, Range(least=0.5, most=0.99999)] = 0.995
    over: Annotated[timedelta, Range(least=timedelta(days=1), most=timedelta(days=92))] = timedelta(
        days=28
    )
    query: str | None = None
    count_planned_stops: bool = True

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def budget(self) -> timedelta:
        """Return the time in which the data may be late in one period."""
        return self.over * (1 - self.objective)
