"""
How far a backup can be trusted: what its verifications say together.

The newest word of a level counts, and a lower level never takes back what a higher one found: that
everything is there in its size says nothing about a byte that was found wrong. What is newer is
told by the order of the records and never by the verifiers' clocks, which differ.

A verification whose record cannot be read may have found the backup whole or damaged. Such a backup
stays and takes no slot, until every byte of it was looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.backup.records import (
    Backup,
    Level,
    Said,
    UnreadableVerification,
    Verification,
)

_DEPTH: Final = {Level.QUICK: 0, Level.FULL: 1, Level.DRILL: 2}


class BackupTrust(StrEnum):
    """What the verifications of one backup come to."""

    VERIFIED = "verified"
    """Every byte of it was looked at and held."""
    UNVERIFIED = "unverified"
    """It was not read in full yet, and nothing was found wrong with it."""
    UNKNOWN = "unknown"
    """The record of a verification cannot be read, and no byte was looked at since."""
    DAMAGED = "damaged"
    """It was found wrong, and no verification as deep has found it whole since."""


class LastWord(NamedTuple):
    """
    A standing, and what it rests on.

    :param level: The deepest level of the verifications that say so; ``None`` when there is none.
    """

    standing: BackupTrust
    level: Level | None


def standings(
    backups: Iterable[Backup], verifications: Iterable[Said]
) -> Mapping[str, BackupTrust]:
    """Return the standing of each backup by its id; those of one backup in their order."""
    said = by_backup(verifications)
    return {backup.id: standing(said.get(backup.id, ())) for backup in backups}


def by_backup(verifications: Iterable[Said]) -> dict[str, list[Said]]:
    """Return verifications by the id of their backup."""
    said: dict[str, list[Said]] = {}
    for verification in verifications:
        said.setdefault(verification.backup, []).append(verification)
    return said


def standing(verifications: Iterable[Said]) -> BackupTrust:
    """Return what the verifications of one backup come to, in the order they were recorded in."""
    return last_word(verifications).standing


def last_word(verifications: Iterable[Said]) -> LastWord:
    """Return what the verifications of one backup come to, and the level that it rests on."""
    word = LastWord(BackupTrust.UNVERIFIED, None)
    for verification in verifications:
        word = _after(word, verification)
    return word


def unreadable(verifications: Iterable[Said]) -> tuple[UnreadableVerification, ...]:
    """
    Return the verifications of one backup that cannot be read and still matter.

    What they found is known again as soon as every byte was looked at since.
    """
    found: list[UnreadableVerification] = []
    for verification in verifications:
        if isinstance(verification, UnreadableVerification):
            found.append(verification)
        elif verification.level is not Level.QUICK:
            found.clear()
    return tuple(found)


def _after(word: LastWord, said: Said) -> LastWord:
    if isinstance(said, UnreadableVerification):
        is_damaged = word.standing is BackupTrust.DAMAGED
        return word if is_damaged else LastWord(BackupTrust.UNKNOWN, None)
    if word.standing is BackupTrust.UNKNOWN and said.level is Level.QUICK and said.holds:
        return word
    return _after_readable(word, said)


def _after_readable(word: LastWord, verification: Verification) -> LastWord:
    level, was_damaged = verification.level, word.standing is BackupTrust.DAMAGED
    if word.level is not None and was_damaged is not verification.holds:
        # The deepest of several that agree is the one to be taken back.
        level = max(level, word.level, key=_DEPTH.__getitem__)
    if not verification.holds:
        return LastWord(BackupTrust.DAMAGED, level)
    if was_damaged and word.level is not None and _DEPTH[level] < _DEPTH[word.level]:
        return word
    return LastWord(BackupTrust.UNVERIFIED if level is Level.QUICK else BackupTrust.VERIFIED, level)
