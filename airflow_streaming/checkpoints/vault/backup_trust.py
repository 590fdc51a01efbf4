"""
How far a backup can be trusted, from its verifications.

The newest result of each level counts. A lower level never overrides a higher one: a correct size
proves nothing about a byte that was found wrong. Records are ordered by their number, not by the
verifiers' clocks, which differ.

After an unreadable verification record the backup may be whole or damaged. It stays and takes no
retention slot until a full verification reads every byte again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.backup.records import (
    Backup,
    Said,
    UnreadableVerification,
    Verification,
)
from airflow_streaming.model.arguments.choices import Level

_DEPTH: Final = {Level.QUICK: 0, Level.FULL: 1, Level.DRILL: 2}


class BackupTrust(StrEnum):
    """The combined result of a backup's verifications."""

    VERIFIED = "verified"
    """Every byte was read and matched."""
    UNVERIFIED = "unverified"
    """It was not read in full yet, and nothing was found wrong with it."""
    UNKNOWN = "unknown"
    """A verification record cannot be read, and no full verification followed."""
    DAMAGED = "damaged"
    """It was found wrong, and no verification as deep has found it whole since."""


class LastWord(NamedTuple):
    """
    A result and its basis.

    :param level: The deepest level of verification with this result, or ``None``.
    """

    standing: BackupTrust
    level: Level | None


def standings(
    backups: Iterable[Backup], verifications: Iterable[Said]
) -> Mapping[str, BackupTrust]:
    """
    Return the trust of each backup by id.

    The verifications of one backup must be in recorded order.
    """
    said = by_backup(verifications)
    return {backup.id: standing(said.get(backup.id, ())) for backup in backups}


def by_backup(verifications: Iterable[Said]) -> dict[str, list[Said]]:
    """Return verifications by the id of their backup."""
    values: dict[str, list[Said]] = {}
    for verification in verifications:
        values.setdefault(verification.backup, []).append(verification)
    return values


def standing(verifications: Iterable[Said]) -> BackupTrust:
    return last_word(verifications).standing


def last_word(verifications: Iterable[Said]) -> LastWord:
    """Return the combined result of one backup's verifications and its level."""
    word = LastWord(BackupTrust.UNVERIFIED, None)
    for verification in verifications:
        word = _after(word, verification)
    return word


def unreadable(verifications: Iterable[Said]) -> tuple[UnreadableVerification, ...]:
    """Return the unreadable verifications of one backup that no full verification followed."""
    found: list[UnreadableVerification] = []
    for verification in verifications:
        if isinstance(verification, UnreadableVerification):
            found.append(verification)
        elif verification.level is not Level.QUICK:
            found.clear()
    return tuple(found)


def _after(word: LastWord, verification: Said) -> LastWord:
    if isinstance(verification, UnreadableVerification):
        is_damaged = word.standing is BackupTrust.DAMAGED
        return word if is_damaged else LastWord(BackupTrust.UNKNOWN, None)
    if (
        word.standing is BackupTrust.UNKNOWN
        and verification.level is Level.QUICK
        and verification.holds
    ):
        return word
    return _after_readable(word, verification)


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
