"""
Verifications of a backup → what it can be trusted with.

The newest word of a level counts, and a lower level never takes back what a higher one found: that
everything is there in its size says nothing about a byte that was found wrong. What is newer is
told by the order of the records and never by the verifiers' clocks, which differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from airflow_streaming.core.checkpoint.backup import Backup, Level, Verification

_DEPTH: Final = {Level.QUICK: 0, Level.FULL: 1, Level.DRILL: 2}


class Standing(StrEnum):
    """What the verifications of one backup come to."""

    VERIFIED = "verified"
    """Every byte of it was looked at and held."""
    UNVERIFIED = "unverified"
    """Nobody has read all of it yet, and nobody has found it wrong."""
    DAMAGED = "damaged"
    """It was found wrong, and no verification as deep has found it whole since."""


class LastWord(NamedTuple):
    """
    A standing, and what it rests on.

    :param level: The deepest level of the verifications that say so; ``None`` when there is none.
    """

    standing: Standing
    level: Level | None


def standings(
    backups: Iterable[Backup], verifications: Iterable[Verification]
) -> Mapping[str, Standing]:
    """Return the standing of each backup by its id; those of one backup in their order."""
    said: dict[str, list[Verification]] = {}
    for verification in verifications:
        said.setdefault(verification.backup, []).append(verification)
    return {backup.id: standing(said.get(backup.id, ())) for backup in backups}


def standing(verifications: Iterable[Verification]) -> Standing:
    """Return what the verifications of one backup come to, in the order they were recorded in."""
    return last_word(verifications).standing


def last_word(verifications: Iterable[Verification]) -> LastWord:
    """Return what the verifications of one backup come to, and the level that it rests on."""
    word = LastWord(Standing.UNVERIFIED, None)
    for verification in verifications:
        word = _after(word, verification)
    return word


def _after(word: LastWord, verification: Verification) -> LastWord:
    level, was_damaged = verification.level, word.standing is Standing.DAMAGED
    if word.level is not None and was_damaged is not verification.holds:
        # The deepest of several that agree is the one to be taken back.
        level = max(level, word.level, key=_DEPTH.__getitem__)
    if not verification.holds:
        return LastWord(Standing.DAMAGED, level)
    if was_damaged and word.level is not None and _DEPTH[level] < _DEPTH[word.level]:
        return word
    return LastWord(Standing.UNVERIFIED if level is Level.QUICK else Standing.VERIFIED, level)
