"""A restart policy is data: bounds that double, budgets by class, and times of day that are quiet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.policies import Blackout, Budget, RestartPolicy
from airflow_streaming.model.spark.failure_signs import FailureClass, FailureKind
from tests.unit.supervision.builders import minutes, seconds

POLICY = RestartPolicy()
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("failures", "bound"),
    [
        (0, seconds(0)),
        (1, seconds(0)),
        (2, seconds(5)),
        (3, seconds(10)),
        (4, seconds(20)),
        (7, seconds(160)),
        (8, minutes(5)),
        (9, minutes(5)),
        (10**9, minutes(5)),
    ],
)
def test_the_bound_doubles_up_to_its_cap(failures: int, bound: timedelta) -> None:
    assert POLICY.bound(failures) == bound


@pytest.mark.parametrize(
    ("first", "longest", "bound"),
    [
        (timedelta(0), timedelta(0), timedelta(0)),
        (timedelta(0), minutes(5), timedelta(0)),
        (minutes(5), minutes(5), minutes(5)),
        (timedelta(days=2), timedelta.max, timedelta.max),
        (timedelta.max, timedelta.max, timedelta.max),
    ],
    ids=["none", "no first delay", "first is last", "very long", "the longest there is"],
)
def test_no_policy_is_too_extreme_for_the_bound(
    first: timedelta, longest: timedelta, bound: timedelta
) -> None:
    policy = RestartPolicy(first_delay=first, max_delay=longest)

    assert policy.bound(200) == bound


@pytest.mark.parametrize(
    "fields",
    [
        {"first_delay": seconds(-1)},
        {"first_delay": minutes(6)},
        {"half_open_after": timedelta(0)},
        {"half_open_after": seconds(-1)},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"first_delay|half_open_after"):
        RestartPolicy(**fields)


@pytest.mark.parametrize(("restarts", "window"), [(-1, minutes(1)), (1, timedelta(0))])
def test_a_budget_that_makes_no_sense_is_refused(restarts: int, window: timedelta) -> None:
    with pytest.raises(ValueError, match=r"Budget\.restarts|positive window"):
        Budget(restarts=restarts, window=window)


def test_every_kind_of_failure_has_a_class() -> None:
    assert {kind.restart_class for kind in FailureKind} == set(FailureClass)


def test_a_policy_survives_the_way_through_a_record() -> None:
    policy = RestartPolicy(
        half_open_after=minutes(30),
        blackouts=(Blackout(start="22:00", end="06:00", days=(4, 5), timezone="Europe/Berlin"),),
    )

    assert RestartPolicy.from_dict(policy.to_dict()) == policy


NIGHT = Blackout(start="22:00", end="06:00", timezone="Europe/Berlin")
NOON = Blackout(start="12:00", end="13:00", timezone="Europe/Berlin")
FRIDAYS = Blackout(start="22:00", end="06:00", days=(4,), timezone="Europe/Berlin")
SMALL_HOURS = Blackout(start="02:30", end="05:00", timezone="Europe/Berlin")
UNTIL_LATE = Blackout(start="22:00", end="02:30", timezone="Europe/Berlin")
ALL_DAY = Blackout(start="00:00", end="00:00", days=(5,), timezone="Europe/Berlin")


def berlin(text: str) -> datetime:
    """Return a time of the clocks in Berlin; in the hour that comes twice, with its offset."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=BERLIN) if time.tzinfo is None else time.astimezone(BERLIN)


@pytest.mark.parametrize(
    ("blackout", "now", "ends"),
    [
        (NOON, "2026-11-20T11:59", None),
        (NOON, "2026-11-20T12:00", "2026-11-20T13:00"),
        (NOON, "2026-11-20T13:00", None),
        (NIGHT, "2026-11-20T23:00", "2026-11-21T06:00"),
        (NIGHT, "2026-11-21T05:59", "2026-11-21T06:00"),
        (NIGHT, "2026-11-21T07:00", None),
        (FRIDAYS, "2026-11-20T23:00", "2026-11-21T06:00"),
        (FRIDAYS, "2026-11-21T05:00", "2026-11-21T06:00"),
        (FRIDAYS, "2026-11-21T23:00", None),
        (ALL_DAY, "2026-11-21T00:00", "2026-11-22T00:00"),
        (ALL_DAY, "2026-11-22T00:00", None),
        (NIGHT, "2026-10-25T02:30", "2026-10-25T06:00"),
        # Clocks go from 2:00 to 3:00 on March 29, and from 3:00 to 2:00 on October 25.
        (SMALL_HOURS, "2026-03-29T01:59", None),
        (SMALL_HOURS, "2026-03-29T03:00", "2026-03-29T05:00"),
        (UNTIL_LATE, "2026-03-29T01:59", "2026-03-29T03:00"),
        (UNTIL_LATE, "2026-03-29T03:00", None),
        (SMALL_HOURS, "2026-10-25T02:29", None),
        (SMALL_HOURS, "2026-10-25T02:30", "2026-10-25T05:00"),
        (SMALL_HOURS, "2026-10-25T02:15+01:00", "2026-10-25T05:00"),
        (UNTIL_LATE, "2026-10-25T02:29", "2026-10-25T02:30+01:00"),
        (UNTIL_LATE, "2026-10-25T02:30", "2026-10-25T02:30+01:00"),
        (UNTIL_LATE, "2026-10-25T02:29+01:00", "2026-10-25T02:30+01:00"),
        (UNTIL_LATE, "2026-10-25T02:30+01:00", None),
    ],
    ids=[
        "just before",
        "at its start",
        "at its end",
        "before midnight",
        "after midnight",
        "by day",
        "on its day",
        "begun on its day",
        "on another day",
        "a whole day",
        "the day after",
        "in the night when clocks are set back",
        "before the hour that is skipped",
        "it would have begun in the hour that is skipped",
        "it would end in the hour that is skipped",
        "and is over after it",
        "before it begins in the hour that comes twice",
        "begun in the hour that comes twice",
        "without a hole when that hour comes again",
        "before its first end in the hour that comes twice",
        "between its two ends",
        "before its last end",
        "after its last end",
    ],
)
def test_a_blackout_says_when_it_is_over(blackout: Blackout, now: str, ends: str | None) -> None:
    found = blackout.ends_at(berlin(now).astimezone(UTC))

    # In UTC, since two times of one zone are compared by their clocks.
    assert (found and found.astimezone(UTC)) == (ends and berlin(ends).astimezone(UTC))


def test_the_last_of_several_blackouts_counts() -> None:
    longer = Blackout(start="12:30", end="15:00", timezone="Europe/Berlin")
    policy = RestartPolicy(blackouts=(NOON, longer))

    assert policy.blackout_until(berlin("2026-11-20T12:45")) == berlin("2026-11-20T15:00")
    assert policy.blackout_until(berlin("2026-11-20T16:00")) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"start": "24:00"}, "'24:00' is not a time of day"),
        ({"end": "6 am"}, "'6 am' is not a time of day"),
        ({"days": (7,)}, "from 0 .Monday. to 6"),
        ({"timezone": "Europe/Nowhere"}, "Unknown time zone 'Europe/Nowhere'"),
        ({"timezone": "../etc"}, "Unknown time zone"),
        ({"timezone": "a" * 300}, "Unknown time zone"),
        ({"timezone": "Europe"}, "Unknown time zone"),
    ],
)
def test_a_blackout_that_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Blackout(**{"start": "22:00", "end": "06:00", **fields})


@pytest.mark.parametrize("name", ["a" * 300, "../etc/passwd", "/etc/passwd", "a/b/c/d", "", "é"])
def test_no_file_is_looked_for_by_what_cannot_name_a_zone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(name: str) -> None:
        raise AssertionError(f"{name} was looked for.")

    monkeypatch.setattr("airflow_streaming.model.arguments.policies.ZoneInfo", asked)
    with pytest.raises(ValueError, match="Unknown time zone"):
        Blackout(start="22:00", end="06:00", timezone=name)


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "0 9 * *",
        "60 9 * * *",
        "0 24 * * *",
        "0 9 1 * *",
        "*/5 9 * * *",
        "0 9 * * 8",
        "0 9 * * mon#1",
        "0 9 1,2 * 1-5",
    ],
)
def test_a_cron_expression_that_is_no_blackout_is_refused(cron: str) -> None:
    with pytest.raises(SpecError, match="Write MINUTE HOUR"):
        Blackout.from_cron(cron, timedelta(hours=1))


@pytest.mark.parametrize("lasts", [timedelta(0), timedelta(days=2), timedelta(seconds=90)])
def test_a_blackout_by_cron_has_a_length_of_whole_minutes(lasts: timedelta) -> None:
    with pytest.raises(SpecError, match="whole minutes"):
        Blackout.from_cron("0 9 * * *", lasts)


@pytest.mark.parametrize(
    ("days", "found"),
    [
        ("*", ()),
        ("0", (6,)),
        ("7", (6,)),
        ("1-5", (0, 1, 2, 3, 4)),
        ("6-1", (0, 5, 6)),
        ("5-3", (0, 1, 2, 4, 5, 6)),
        ("7-2", (0, 1, 6)),
        ("mon,FRI-Sun", (0, 4, 5, 6)),
    ],
)
def test_days_of_cron_are_days_of_a_blackout(days: str, found: tuple[int, ...]) -> None:
    assert Blackout.from_cron(f"0 9 * * {days}", timedelta(hours=1)).days == found


@pytest.mark.parametrize(
    ("cron", "lasts", "named"),
    [
        (None, timedelta(hours=1), "cron"),
        ("0 9 * * *", 3600, "lasts"),
        ("0 9 * * *", "8h", "lasts"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(cron: Any, lasts: Any, named: str) -> None:
    with pytest.raises(SpecError, match=named):
        Blackout.from_cron(cron, lasts)
