"""
Backups + the longest a stream may be without one → whether it is late.

What counts is the newest backup that is good for something: one that was found damaged is none, and
where the schedule verifies, one that nobody has verified is none either. One from the future is
none as well: it was taken by a clock that was wrong, and would hide for years that none is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.core.checkpoint.backup import Backup, Verification
from airflow_streaming.core.checkpoint.slots import in_words
from airflow_streaming.core.checkpoint.standing import Standing, standings

SKEW: Final = timedelta(hours=1)
"""How far the clocks of two hosts may differ before a backup counts as one from the future."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeVerdict:
    """
    Whether a stream's newest good backup is too old.

    :param newest: It; ``None`` when there is none.
    :param age: How old it is, not less than nothing; ``None`` when there is none.
    :param reason: The verdict in words, with the figures.
    """

    is_late: bool
    reason: str
    newest: Backup | None = None
    age: timedelta | None = None


def judge_age(
    backups: Iterable[Backup],
    verifications: Iterable[Verification],
    *,
    max_age: timedelta,
    now: datetime,
    verified: bool = False,
) -> AgeVerdict:
    """
    Return whether the newest good backup is older than it may be.

    :param backups: All of one stream.
    :param max_age: The longest that may lie between now and the moment the backup holds.
    :param verified: Only backups that were verified in full, or by a drill, are good.
    """
    found = list(backups)
    standing = standings(found, verifications)
    wanted = {Standing.VERIFIED} if verified else {Standing.VERIFIED, Standing.UNVERIFIED}
    good = [
        backup
        for backup in found
        if standing[backup.id] in wanted and backup.begun_at <= now + SKEW
    ]
    sort = "verified" if verified else "good"
    if not good:
        return AgeVerdict(is_late=True, reason=f"There is no {sort} backup. {_of(len(found))}")
    newest = max(good, key=lambda backup: (backup.begun_at, backup.id))
    age = max(now - newest.begun_at, timedelta())
    is_late = age > max_age
    bound = "older than" if is_late else "within"
    return AgeVerdict(
        is_late=is_late,
        newest=newest,
        age=age,
        reason=(
            f"The newest {sort} backup, {newest.id}, is {_rounded(age)} old, {bound} the "
            f"{in_words(max_age)} that are allowed."
        ),
    )


def _of(others: int) -> str:
    return f"The store holds {others} that are not." if others else "The store holds none at all."


def _rounded(age: timedelta) -> str:
    return f"{age / timedelta(hours=1):.1f} hours"
