"""
Retention policy: which backups stay, with every reason, and how old the newest may be.

All functions take the backups newest first, and keep that order.

The newest *usable* backup counts. Damaged backups are not usable. Where the schedule verifies,
unverified backups are not usable either. A backup from the future comes from a wrong clock; it
would hide for years that backups have stopped, so it does not count.

All rules err on the side of keeping. Slots are filled by backups and not by the calendar, so a day
without a backup uses no slot. Ages are sums of gaps between backups, so a clock that jumps makes no
backup old:

- the age of a backup is the sum of the gaps between it and the newest one, and no gap counts for
more than a quarter of the policy's period. A stream that was down for a month, or a clock that
jumped a year ahead, ages a backup by at most that much;

- the time of day matters in one case only: a backup from the future stays and takes no slot.

A damaged backup takes no slot. The newest verified backup always stays, and so does the last good
backup of every checkpoint.

An open change may need to return to its backups, and the end of the change is recorded in the
stream's home. So such a backup names its change and home from the start, and retention removes it
only after it has read the end of the change. No release step exists that a crash could skip: a
change that dies half-way stays open, and its backups stay. No time-out ends it: an
unreachable home, or a home without the change, keeps the backup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.checkpoints.backup.records import Backup, Said
from airflow_streaming.checkpoints.vault.backup_trust import (
    BackupTrust,
    by_backup,
    last_word,
    standings,
    unreadable,
)
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from airflow_streaming.model.durations import duration_text

LARGEST_GAP: Final = 4
"""No gap between two neighbors counts for more than this part, a quarter, of the age asked for."""

SKEW: Final = timedelta(hours=1)
"""How far the clocks of two hosts may differ before a backup counts as one from the future."""

_WORDS: Final = {
    BackupTrust.VERIFIED: "it is the newest verified one",
    BackupTrust.UNVERIFIED: "it is the newest whole one, and none is verified",
}
_UNREADABLE: Final = "a verification of it cannot be read; verify it in full"
_GOOD: Final = (BackupTrust.VERIFIED, BackupTrust.UNVERIFIED)

_HOME: Final = "change_home"
_NUMBER: Final = "change"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeVerdict:
    """
    Whether a stream's newest usable backup is too old.

    :param newest: The backup, or ``None``.
    :param age: Its age, at least zero, or ``None``.
    :param reason: The verdict in words, with the figures.
    """

    is_late: bool
    reason: str
    newest: Backup | None = None
    age: timedelta | None = None


def judge_age(
    backups: Iterable[Backup],
    verifications: Iterable[Said],
    *,
    max_age: timedelta,
    now: datetime,
    verified: bool = False,
) -> AgeVerdict:
    """
    Return whether the newest good backup is older than it may be.

    :param max_age: The longest that may lie between now and the moment the backup holds.
    :param verified: Only backups that were verified in full, or by a drill, are good.
    """
    found = list(backups)
    standing = standings(found, verifications)
    wanted = {BackupTrust.VERIFIED} if verified else {BackupTrust.VERIFIED, BackupTrust.UNVERIFIED}
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
            f"The newest {sort} backup, {newest.id}, is {duration_text(age)} old, {bound} the "
            f"{duration_text(max_age)} that are allowed."
        ),
    )


def _of(others: int) -> str:
    return f"The store holds {others} that are not." if others else "The store holds none at all."


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBackup:
    """
    A backup that stays.

    :param reasons: Every rule that keeps it, in words.
    """

    backup: Backup
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """The backups to keep and the backups to remove, newest first."""

    keep: tuple[KeptBackup, ...]
    remove: tuple[Backup, ...]

    def lines(self, held: Collection[str] = ()) -> list[str]:
        """
        Return the plan in words, one line for each backup, newest first.

        :param held: Ids of backups that no rule keeps and that stay because they are in use.
        """
        shown = [(kept.backup, f"stays: {'; '.join(kept.reasons)}") for kept in self.keep]
        shown += [
            (backup, "stays: in use just now; no rule keeps it" if backup.id in held else "goes")
            for backup in self.remove
        ]
        shown.sort(key=lambda one: _age_order(one[0]), reverse=True)
        return [f"{backup.id} ({backup.origin}) {words}" for backup, words in shown]


def plan_retention(
    backups: Iterable[Backup],
    verifications: Iterable[Said],
    policy: RetentionPolicy,
    now: datetime,
) -> RetentionPlan:
    """
    Return which of a stream's backups stay and which go.

    :param verifications: All that was found of them, in any order.
    :param now: The time of day, best by the store's clock.
    """
    found = sorted(backups, key=_age_order, reverse=True)
    said = by_backup(verifications)
    standing = {backup.id: last_word(said.get(backup.id, ())).standing for backup in found}
    reasons: dict[str, list[str]] = {backup.id: [] for backup in found}
    past = [backup for backup in found if backup.begun_at <= now]
    for backup in found:
        if backup.begun_at > now:
            reasons[backup.id].append("it is from the future")
        if unreadable(said.get(backup.id, ())):
            reasons[backup.id].append(_UNREADABLE)
    if not any(standing[backup.id] in _GOOD for backup in past):
        # Missing objects may be away for now, as on a disk that is not mounted.
        for backup in past:
            reasons[backup.id].append("none is whole, so none is removed")
    last_resort = _last_resort(past, standing)
    if last_resort is not None:
        reasons[last_resort.id].append(_WORDS[standing[last_resort.id]])
    for checkpoint, backup in _last_good_of_each_checkpoint(past, standing):
        if backup is not last_resort:
            reasons[backup.id].append(f"it is the last good one of {checkpoint}")
    for rules, members in _populations(past, policy):
        _judge(members, standing, rules, reasons)
    return RetentionPlan(
        keep=tuple(
            KeptBackup(backup=backup, reasons=tuple(reasons[backup.id]))
            for backup in found
            if reasons[backup.id]
        ),
        remove=tuple(backup for backup in found if not reasons[backup.id]),
    )


def _last_resort(past: Sequence[Backup], standing: Mapping[str, BackupTrust]) -> Backup | None:
    for wanted in _GOOD:
        for backup in past:
            if standing[backup.id] is wanted:
                return backup
    return None


def _last_good_of_each_checkpoint(
    past: Sequence[Backup], standing: Mapping[str, BackupTrust]
) -> Iterable[tuple[str, Backup]]:
    of_checkpoint: dict[str, list[Backup]] = {}
    for backup in past:
        for checkpoint in sorted({query.checkpoint for query in backup.queries}):
            of_checkpoint.setdefault(checkpoint, []).append(backup)
    for checkpoint, backups in of_checkpoint.items():
        if (good := _last_resort(backups, standing)) is not None:
            yield checkpoint, good


def _populations(
    past: Sequence[Backup], policy: RetentionPolicy
) -> Iterable[tuple[RetentionPolicy, list[Backup]]]:
    yield policy, [backup for backup in past if backup.origin not in policy.origins]
    for origin, rules in policy.origins.items():
        yield rules, [backup for backup in past if backup.origin is origin]


def _judge(
    members: Sequence[Backup],
    standing: Mapping[str, BackupTrust],
    rules: RetentionPolicy,
    reasons: dict[str, list[str]],
) -> None:
    whole = [backup for backup in members if standing[backup.id] in _GOOD]
    # Beside others, "the last two" must say of which.
    sort = "" if len(whole) == len(members) else " good ones"
    for backup, why in _chosen(whole, rules, sort):
        reasons[backup.id].append(why)
    # A damaged one goes when it would go if it were whole: an engineer may want to look at it.
    for backup, why in _chosen(members, rules):
        if standing[backup.id] is BackupTrust.DAMAGED:
            reasons[backup.id].append(f"damaged, takes no slot; if it were whole: {why}")


def _chosen(
    members: Sequence[Backup], rules: RetentionPolicy, sort: str = ""
) -> Iterable[tuple[Backup, str]]:
    for backup in members[: rules.keep_last]:
        yield backup, f"one of the last {rules.keep_last}{sort}"
    if rules.keep_for is not None:
        for backup in younger_than(rules.keep_for, members):
            yield backup, f"younger than {duration_text(rules.keep_for)}"
    for period in Period:
        for backup, label in newest_of_each(period, members, getattr(rules, period)):
            yield backup, f"{period} of {label}"


def _age_order(backup: Backup) -> tuple[datetime, str]:
    return backup.begun_at, backup.id


class ChangeStanding(StrEnum):
    """How a change stands, as far as its home can tell."""

    ENDED = "ended"
    OPEN = "open"
    """Its home has no record of its end."""
    UNKNOWN = "unknown"
    """Its home could not be read."""


@dataclass(frozen=True, slots=True)
class ForChange:
    """
    The change that a backup was taken for.

    :param home: URI of the home with its record.
    :param number: The change's number as unchecked text.
    """

    home: str
    number: str

    @property
    def in_words(self) -> str:
        """Return it as a sentence names it."""
        return f"change {self.number} in {self.home}"


def facts_for(home: str, change: int) -> dict[str, str]:
    """Return the facts that link a backup to a change of its stream."""
    return {_HOME: home, _NUMBER: str(change)}


def change_of(backup: Backup) -> ForChange | None:
    """Return the change that a backup was taken for, if any."""
    if _HOME not in backup.facts or _NUMBER not in backup.facts:
        return None
    return ForChange(backup.facts[_HOME], backup.facts[_NUMBER])


def changes_of(backups: Iterable[Backup]) -> frozenset[ForChange]:
    """Return the changes whose state decides whether these backups may be removed."""
    return frozenset(found for found in map(change_of, backups) if found is not None)


def spare(plan: RetentionPlan, standings: Mapping[ForChange, ChangeStanding]) -> RetentionPlan:
    """
    Keep the backups that an open change may return to.

    :param standings: The states of the changes, read *after* the backups were listed: a change
        opens before its backups are taken, and ends once. A missing one counts as unknown.
    """
    why = {backup.id: _why(change_of(backup), standings) for backup in plan.remove}
    spared = [KeptBackup(backup=b, reasons=(why[b.id],)) for b in plan.remove if why[b.id]]
    keep = sorted((*plan.keep, *spared), key=lambda kept: kept.backup.id, reverse=True)
    keep.sort(key=lambda kept: kept.backup.begun_at, reverse=True)
    return RetentionPlan(
        keep=tuple(keep), remove=tuple(backup for backup in plan.remove if not why[backup.id])
    )


def _why(change: ForChange | None, standings: Mapping[ForChange, ChangeStanding]) -> str:
    if change is None:
        return ""
    match standings.get(change, ChangeStanding.UNKNOWN):
        case ChangeStanding.ENDED:
            return ""
        case ChangeStanding.OPEN:
            return f"{change.in_words} has not ended and may go back to it"
        case ChangeStanding.UNKNOWN:
            return f"the state of {change.in_words} could not be read"
