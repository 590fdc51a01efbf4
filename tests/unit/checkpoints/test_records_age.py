"""Whether the newest good backup is too old."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_streaming.checkpoints.backup.records import Backup, Verification
from airflow_streaming.checkpoints.vault.retention_policy import judge_age
from airflow_streaming.model.arguments.choices import Level
from tests.unit.checkpoints.backups import a_backup, at, verified

OLD, NEW = a_backup(1), a_backup(9)
LIMIT = timedelta(hours=6)


@pytest.mark.parametrize(
    ("backups", "said", "verified_only", "reason"),
    [
        pytest.param([], [], False, "There is no good backup. The store holds none", id="none"),
        pytest.param(
            [OLD], [], False, f"{OLD.id}, is 9 h old, older than the 6 h", id="an old one"
        ),
        pytest.param(
            [OLD, NEW],
            [verified(NEW, Level.QUICK, "gone")],
            False,
            f"good backup, {OLD.id}, is 9 h old",
            id="the new one is damaged",
        ),
        pytest.param(
            [NEW], [], True, "There is no verified backup. The store holds 1 that", id="unverified"
        ),
        pytest.param(
            [OLD, NEW], [verified(OLD)], True, f"verified backup, {OLD.id}", id="the old one is"
        ),
        pytest.param(
            [OLD, a_backup(900)], [], False, f"good backup, {OLD.id}", id="one from the future"
        ),
    ],
)
def test_a_stream_is_late_when(
    backups: list[Backup], said: list[Verification], verified_only: bool, reason: str
) -> None:
    verdict = judge_age(backups, said, max_age=LIMIT, now=at(10), verified=verified_only)

    assert verdict.is_late
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("backups", "said", "verified_only"),
    [
        pytest.param([OLD, NEW], [], False, id="a new one"),
        pytest.param([OLD, NEW], [verified(NEW, Level.DRILL)], True, id="a new one that drilled"),
        pytest.param([a_backup(10.5)], [], False, id="one by a clock half an hour ahead"),
        pytest.param([a_backup(4)], [], False, id="one of exactly the age allowed"),
    ],
)
def test_a_stream_is_not_late_with(
    backups: list[Backup], said: list[Verification], verified_only: bool
) -> None:
    verdict = judge_age(backups, said, max_age=LIMIT, now=at(10), verified=verified_only)

    assert not verdict.is_late
    assert "within the 6 h that are allowed" in verdict.reason
