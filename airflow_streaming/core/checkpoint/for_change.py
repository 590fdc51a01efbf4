"""
Backups that were taken for a change: they stay until it has ended.

An open change may have to go back to them, and its end stands in the home of the stream. So such a
backup says, from the moment it is there, which change of which home it was taken for, and only the
record of that change's end lets retention have it. There is nothing to be released: whoever dies
half-way leaves a change that is open, and so a backup that stays. There is no time-out either: a
home that cannot be asked, and one that does not know the change, have said nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_streaming.core.checkpoint.backup import Backup
from airflow_streaming.core.checkpoint.retention import Kept, RetentionPlan

_HOME: Final = "change_home"
_NUMBER: Final = "change"


class ChangeStanding(StrEnum):
    """How a change stands, as far as its home can tell."""

    ENDED = "ended"
    OPEN = "open"
    """Its home has no record of its end."""
    UNKNOWN = "unknown"
    """Its home could not be asked."""


@dataclass(frozen=True, slots=True)
class ForChange:
    """
    The change that a backup was taken for.

    :param home: URI of the home it is recorded in.
    :param number: The change's, as text that was read and not checked.
    """

    home: str
    number: str

    @property
    def in_words(self) -> str:
        """Return it as a sentence names it."""
        return f"change {self.number} in {self.home}"


def facts_for(home: str, change: int) -> dict[str, str]:
    """Return the facts with which a backup says that it was taken for a change of its stream."""
    return {_HOME: home, _NUMBER: str(change)}


def change_of(backup: Backup) -> ForChange | None:
    """Return the change that a backup was taken for, ``None`` when it was taken for none."""
    if _HOME not in backup.facts or _NUMBER not in backup.facts:
        return None
    return ForChange(backup.facts[_HOME], backup.facts[_NUMBER])


def changes_of(backups: Iterable[Backup]) -> frozenset[ForChange]:
    """Return the changes that have to be asked about before these backups go."""
    return frozenset(found for found in map(change_of, backups) if found is not None)


def spare(plan: RetentionPlan, standings: Mapping[ForChange, ChangeStanding]) -> RetentionPlan:
    """
    Return the plan without the removal of what a change may still go back to.

    :param standings: How the changes stand, looked up *after* the backups were listed: a change is
        begun before its backups are taken and ends once. One that is missing counts as unknown.
    """
    why = {backup.id: _why(change_of(backup), standings) for backup in plan.remove}
    spared = [Kept(backup=b, reasons=(why[b.id],)) for b in plan.remove if why[b.id]]
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
            return f"{change.in_words} could not be asked whether it has ended"
