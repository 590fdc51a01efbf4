"""
Verifications of a backup → what it can be trusted with.

The newest word of a level counts, and a lower level never takes back what a higher one found: that
everything is there in its size says nothing about a byte that was found wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

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


def standings(
    backups: Iterable[Backup], verifications: Iterable[Verification]
) -> Mapping[str, Standing]:
    """Return the standing of each backup by its id."""
    said: dict[str, list[Verification]] = {}
    for verification in verifications:
        said.setdefault(verification.backup, []).append(verification)
    return {backup.id: standing(said.get(backup.id, ())) for backup in backups}


def standing(verifications: Iterable[Verification]) -> Standing:
    """Return what the verifications of one backup, in any order, come to."""
    standing, found_at_depth = Standing.UNVERIFIED, 0
    for verification in sorted(verifications, key=_in_time):
        depth = _DEPTH[verification.level]
        if not verification.holds:
            # A failure that is deeper than the one before it is the one to be taken back.
            was_damaged = standing is Standing.DAMAGED
            found_at_depth = max(depth, found_at_depth) if was_damaged else depth
            standing = Standing.DAMAGED
        elif standing is Standing.DAMAGED and depth < found_at_depth:
            continue
        elif verification.level in (Level.FULL, Level.DRILL):
            standing = Standing.VERIFIED
        elif standing is Standing.DAMAGED:
            standing = Standing.UNVERIFIED
    return standing


def _in_time(verification: Verification) -> tuple[datetime, bool]:
    # Of two at one moment the one that found something has the last word.
    return verification.verified_at, not verification.holds
