"""What was taken for a change stays until the change has ended."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.vault.retention_policy import (
    ChangeStanding,
    ForChange,
    change_of,
    changes_of,
    facts_for,
    plan_retention,
    spare,
)
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from tests.unit.checkpoints.backups import a_backup, at

HOME = "s3://lake/streams"
SEVEN = ForChange(HOME, "7")


@pytest.mark.parametrize(
    ("facts", "standings", "why"),
    [
        pytest.param({}, {}, "", id="taken for none"),
        pytest.param({"change": "7"}, {}, "", id="of no home"),
        pytest.param(
            facts_for(HOME, 7),
            {SEVEN: ChangeStanding.OPEN},
            "change 7 in s3://lake/streams has not ended and may go back to it",
            id="open",
        ),
        pytest.param(facts_for(HOME, 7), {SEVEN: ChangeStanding.ENDED}, "", id="ended"),
        pytest.param(
            facts_for(HOME, 7),
            {SEVEN: ChangeStanding.UNKNOWN},
            "the state of change 7 in s3://lake/streams could not be read",
            id="its home is away",
        ),
        pytest.param(
            facts_for(HOME, 7),
            {ForChange(HOME, "6"): ChangeStanding.ENDED},
            "the state of change 7 in s3://lake/streams could not be read",
            id="only another one has ended",
        ),
        pytest.param(
            facts_for(HOME, 7),
            {ForChange("s3://other/streams", "7"): ChangeStanding.ENDED},
            "the state of change 7 in s3://lake/streams could not be read",
            id="the same number of another home",
        ),
    ],
)
def test_only_the_end_of_its_change_lets_a_backup_go(
    facts: dict[str, str], standings: dict[ForChange, ChangeStanding], why: str
) -> None:
    old, new = a_backup(0, facts=facts, origin=Origin.BEFORE_UPGRADE), a_backup(1)
    plan = plan_retention([old, new], (), RetentionPolicy(keep_last=1), at(2))
    assert plan.remove == (old,)

    spared = spare(plan, standings)

    assert spared.remove == (() if why else (old,))
    assert [kept.reasons for kept in spared.keep if kept.backup is old] == ([(why,)] if why else [])


def test_what_is_spared_stands_among_what_is_kept_by_its_age() -> None:
    backups = [a_backup(hour, facts=facts_for(HOME, 7) if hour < 3 else {}) for hour in range(5)]
    plan = plan_retention(backups, (), RetentionPolicy(keep_last=1), at(9))

    spared = spare(plan, {SEVEN: ChangeStanding.OPEN})

    assert [kept.backup.begun_at for kept in spared.keep] == [at(4), at(2), at(1), at(0)]
    assert [backup.begun_at for backup in spared.remove] == [at(3)]


def test_each_change_is_asked_about_once() -> None:
    backups = [a_backup(0), *(a_backup(hour, facts=facts_for(HOME, 7)) for hour in (1, 2))]

    assert changes_of(backups) == {SEVEN}
    assert [change_of(backup) for backup in backups] == [None, SEVEN, SEVEN]
