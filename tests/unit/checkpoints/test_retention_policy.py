"""Which backups stay, and which go."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airflow_streaming.checkpoints.backup.records import Backup, Verification
from airflow_streaming.checkpoints.vault.retention_policy import RetentionPlan, plan_retention
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.choices import Level, Origin
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from tests.unit.checkpoints.backups import a_backup, at, torn, verified

FEW = settings(max_examples=40, deadline=None)
HOURS = st.lists(st.integers(0, 24 * 70), min_size=1, max_size=25, unique=True).map(sorted)
COUNTS = st.integers(0, 5)


@st.composite
def policies(draw: st.DrawFn) -> RetentionPolicy:
    days = draw(st.none() | st.integers(1, 30))
    policy = {name: draw(COUNTS) for name in ("daily", "weekly", "monthly")}
    keep_for = None if days is None else timedelta(days=days)
    return RetentionPolicy(keep_last=draw(st.integers(1, 5)), keep_for=keep_for, **policy)


@st.composite
def stores(draw: st.DrawFn) -> tuple[list[Backup], list[Verification]]:
    backups = [
        a_backup(hours, origin=draw(st.sampled_from((Origin.SCHEDULED, Origin.MANUAL))))
        for hours in draw(HOURS)
    ]
    words = st.sampled_from(("", "whole", "damaged"))
    found = [(backup, draw(words)) for backup in backups]
    said = [
        verified(backup, Level.FULL, *([] if word == "whole" else ["A byte is wrong."]))
        for backup, word in found
        if word
    ]
    return backups, said


def kept(plan: RetentionPlan) -> set[datetime]:
    return {one.backup.begun_at for one in plan.keep}


def plan_of(hours: list[float], now: float = 24 * 400, **policy: Any) -> set[float]:
    """Return the hours of the backups that stay when nothing was verified."""
    backups = [a_backup(hour) for hour in hours]
    plan = plan_retention(backups, (), RetentionPolicy(**policy), at(now))
    return {(moment - at(0)) / timedelta(hours=1) for moment in kept(plan)}


@pytest.mark.parametrize(
    ("policy", "stay"),
    [
        pytest.param({"keep_last": 2}, {70, 71}, id="the last two"),
        pytest.param(
            {"keep_for": timedelta(hours=12)}, set(range(59, 72)), id="those of twelve hours"
        ),
        pytest.param({"daily": 2}, {47, 71}, id="the newest of each of two days"),
        pytest.param({"daily": 9}, {23, 47, 71}, id="as many days as there are"),
        pytest.param({"weekly": 3}, {71}, id="the newest of the only week"),
        pytest.param({"keep_last": 1, "daily": 3}, {23, 47, 71}, id="whatever any rule keeps"),
    ],
)
def test_of_three_days_of_hourly_backups_it_keeps(policy: dict[str, Any], stay: set[float]) -> None:
    assert plan_of(list(range(72)), **policy) == stay


def test_days_and_weeks_without_a_backup_use_up_no_slot() -> None:
    weekly = [0, 24 * 7, 24 * 70, 24 * 77]

    assert plan_of(weekly, daily=3) == {24 * 7, 24 * 70, 24 * 77}
    assert plan_of(weekly, weekly=3) == {24 * 7, 24 * 70, 24 * 77}
    assert plan_of(weekly, monthly=2) == {24 * 7, 24 * 77}


def test_many_of_one_origin_push_out_none_of_another() -> None:
    policy = RetentionPolicy(keep_last=2, origins={Origin.MANUAL: RetentionPolicy(keep_last=1)})
    scheduled = [a_backup(hour) for hour in (1, 2, 3)]
    manual = [a_backup(hour, origin=Origin.MANUAL) for hour in (4, 5, 6)]

    plan = plan_retention([*scheduled, *manual], (), policy, at(7))

    assert kept(plan) == {at(2), at(3), at(6)}


def test_every_reason_is_told_of_what_stays() -> None:
    backups = [a_backup(hour) for hour in (1, 30)]
    policy = RetentionPolicy(keep_last=1, daily=1)

    plan = plan_retention(backups, [verified(backups[0])], policy, at(31))

    assert [line.partition(" ")[2] for line in plan.lines()] == [
        "(scheduled) stays: one of the last 1; daily of 2026-03-03",
        "(scheduled) stays: it is the newest verified one",
    ]


def test_what_is_damaged_takes_no_slot_from_what_is_whole() -> None:
    backups = [a_backup(hour) for hour in range(6)]
    broken = [verified(backup, Level.FULL, "A byte is wrong.") for backup in backups[3:]]

    plan = plan_retention(backups, broken, RetentionPolicy(keep_last=2), at(9))

    assert kept(plan) == {at(1), at(2), at(4), at(5)}


def test_what_a_verification_found_and_cannot_be_read_keeps_the_backup_and_gives_it_no_slot() -> (
    None
):
    backups = [a_backup(hour) for hour in range(6)]
    said = [torn(backups[0]), torn(backups[5]), verified(backups[5], Level.QUICK, "gone")]

    plan = plan_retention(backups, said, RetentionPolicy(keep_last=2), at(9))

    assert kept(plan) == {at(0), at(3), at(4), at(5)}


def test_no_two_sets_are_called_by_the_same_words() -> None:
    backups = [a_backup(hour) for hour in range(4)]
    broken = [verified(backup, Level.FULL, "A byte is wrong.") for backup in backups[2:]]

    plan = plan_retention(backups, broken, RetentionPolicy(keep_last=1), at(9))

    why = {one.backup.begun_at: one.reasons for one in plan.keep}
    assert set(why) == {at(1), at(3)}
    assert not set(why[at(1)]) & set(why[at(3)])
    assert len([line for line in plan.lines([backups[0].id]) if line.endswith("goes")]) == 1


@pytest.mark.parametrize(
    ("words", "is_held"),
    [
        pytest.param([(Level.FULL, "")], True, id="verified in full"),
        pytest.param([(Level.DRILL, "")], True, id="drilled"),
        pytest.param([(Level.QUICK, "")], False, id="looked at quickly"),
        pytest.param([(Level.FULL, ""), (Level.QUICK, "gone")], False, id="gone since"),
        pytest.param([(Level.FULL, "flip"), (Level.QUICK, "")], False, id="quickly forgiven"),
        pytest.param([(Level.FULL, "flip"), (Level.FULL, "")], True, id="mended"),
        pytest.param([(Level.DRILL, "no start"), (Level.FULL, "")], False, id="drill failed"),
        pytest.param([(Level.QUICK, "gone"), (Level.FULL, "")], True, id="gone and back"),
    ],
)
def test_the_newest_verified_one_stays_whatever_the_policy_says(
    words: list[tuple[Level, str]], is_held: bool
) -> None:
    old, *others = [a_backup(hour) for hour in range(6)]
    said = [
        verified(old, level, *filter(None, [fault]), after=number)
        for number, (level, fault) in enumerate(words)
    ]

    plan = plan_retention([old, *others], said, RetentionPolicy(keep_last=1), at(9))

    assert (at(0) in kept(plan)) is is_held


def test_nothing_is_removed_when_none_is_whole() -> None:
    backups = [a_backup(1, origin=Origin.MANUAL), a_backup(2, origin=Origin.SCHEDULED)]
    said = [verified(backup, Level.QUICK, "gone") for backup in backups]

    plan = plan_retention(backups, said, RetentionPolicy(keep_last=1), at(3))

    # A disk with their objects that is not mounted looks the same.
    assert kept(plan) == {at(1), at(2)}
    assert plan.remove == ()


def test_a_backup_from_the_future_stays_and_takes_no_slot() -> None:
    assert plan_of([1, 2, 24 * 365], now=3, keep_last=1) == {2, 24 * 365}


@pytest.mark.parametrize("years", [1, 100])
def test_a_clock_that_jumps_before_a_backup_makes_nothing_old(years: int) -> None:
    hours = [*range(48), 48 + years * 365 * 24]

    gone = set(hours) - plan_of(hours, now=hours[-1] + 1, keep_for=timedelta(days=4))

    assert gone == set()


def naive(
    backups: list[Backup], said: list[Verification], policy: RetentionPolicy
) -> set[datetime]:
    """Return what stays, told from the definitions one backup at a time."""
    broken = {one.backup for one in said if one.problems}
    held = {one.backup for one in said} - broken
    stays = set()
    for backup in backups:
        rivals = [b for b in backups if backup.id in broken or b.id not in broken]
        newer = [b.begun_at for b in rivals if b.begun_at > backup.begun_at]
        if is_kept(backup.begun_at, newer, policy):
            stays.add(backup.begun_at)
    if {b.id for b in backups} <= broken:
        return {b.begun_at for b in backups}
    for candidates in (held, {b.id for b in backups} - broken):
        moments = [backup.begun_at for backup in backups if backup.id in candidates]
        if moments:
            return stays | {max(moments)}
    return stays


def is_kept(moment: datetime, newer: list[datetime], policy: RetentionPolicy) -> bool:
    line = [moment, *sorted(newer)]
    gaps = [later - sooner for sooner, later in pairwise(line)]
    periods = ((policy.daily, "%Y%j"), (policy.weekly, "%G%V"), (policy.monthly, "%Y%m"))
    by_age = policy.keep_for is not None and (
        sum((min(gap, policy.keep_for / 4) for gap in gaps), timedelta()) <= policy.keep_for
    )
    by_period = any(
        moment.strftime(form) not in {one.strftime(form) for one in newer}
        and len({one.strftime(form) for one in newer}) < count
        for count, form in periods
    )
    return len(newer) < policy.keep_last or by_age or by_period


@FEW
@given(stores(), policies())
def test_it_agrees_with_the_definitions(
    store: tuple[list[Backup], list[Verification]], policy: RetentionPolicy
) -> None:
    backups, said = store

    plan = plan_retention(backups, said, policy, at(24 * 80))

    assert kept(plan) == naive(backups, said, policy)
    assert kept(plan) | {b.begun_at for b in plan.remove} == {b.begun_at for b in backups}
    assert len(plan.keep) + len(plan.remove) == len(backups)


@FEW
@given(stores(), policies(), st.integers(0, 10**6))
def test_now_far_ahead_removes_nothing_more_and_a_second_run_nothing_at_all(
    store: tuple[list[Backup], list[Verification]], policy: RetentionPolicy, ahead: int
) -> None:
    backups, said = store
    plan = plan_retention(backups, said, policy, at(24 * 80))

    again = plan_retention([one.backup for one in plan.keep], said, policy, at(24 * 80 + ahead))

    assert again.remove == ()
    assert plan_retention(backups, said, policy, at(24 * 80 + ahead)) == plan


@FEW
@given(HOURS, st.integers(1, 30), st.integers(0, 24), st.integers(1, 10**5))
def test_one_jump_makes_nothing_older_by_more_than_a_quarter_of_the_period(
    hours: list[float], days: int, place: int, jump: int
) -> None:
    assume(place < len(hours))
    jumped = [hour + (jump if n >= place else 0) for n, hour in enumerate(hours)]

    stay = plan_of(jumped, now=10**7, keep_for=timedelta(days=days))

    for number, hour in enumerate(hours):
        if hours[-1] - hour <= days * 24 * 3 / 4:
            assert jumped[number] in stay


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({}, "keeps nothing", id="nothing"),
        pytest.param({"keep_last": -1}, "keep_last is -1", id="a negative number"),
        pytest.param({"keep_last": 1.5}, "keep_last is 1.5", id="half a backup"),
        pytest.param({"keep_for": 0}, "keep_for is 0 s", id="no time"),
        pytest.param({"keep_for": "7d"}, "give a number of days", id="a text for days"),
        pytest.param({"keep_for": 1e300}, "is not a number of days", id="too many days"),
        pytest.param({"keep": 3}, "keep is unknown; use daily", id="an unknown field"),
        pytest.param(
            {"keep_last": 1, "origins": {"cron": {"keep_last": 1}}},
            "unknown origin of backups 'cron'; use manual, scheduled",
            id="an unknown origin",
        ),
        pytest.param(
            {"keep_last": 1, "origins": {"manual": {"keep_last": 1, "origins": {"manual": {}}}}},
            "keeps nothing",
            id="an empty policy within",
        ),
        pytest.param({"keep_last": 1, "origins": [1]}, "expected an object", id="a list"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        RetentionPolicy.from_dict(given)


def test_a_policy_is_read_from_json_with_ages_in_days() -> None:
    text = '{"keep_last": 3, "keep_for": 7, "origins": {"manual": {"monthly": 12}}}'

    assert RetentionPolicy.from_json(text) == RetentionPolicy(
        keep_last=3,
        keep_for=timedelta(days=7),
        origins={Origin.MANUAL: RetentionPolicy(monthly=12)},
    )
    with pytest.raises(SpecError, match="not a JSON object"):
        RetentionPolicy.from_json("keep it all")
