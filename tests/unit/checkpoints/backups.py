"""Backups of one stream, by the hour they were begun."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.checkpoints.backup.records import (
    Backup,
    UnreadableVerification,
    Verification,
)
from airflow_streaming.model.arguments.choices import Level, Origin

DAY_ONE: Final = datetime(2026, 3, 2, tzinfo=UTC)
"""A Monday."""


def at(hours: float) -> datetime:
    """Return the moment some hours after midnight of the first day."""
    return DAY_ONE + timedelta(hours=hours)


def a_backup(hours: float, **changes: Any) -> Backup:
    """Return a backup that was begun some hours after midnight of the first day."""
    begun = at(hours)
    told: dict[str, Any] = {
        "id": f"{begun:%Y%m%dT%H%M%S}-{abs(hash(hours)) % 4096:03x}",
        "stream": "orders",
        "begun_at": begun,
        "finished_at": begun + timedelta(seconds=5),
        "origin": Origin.SCHEDULED,
        "by": "test",
        "queries": (),
        "bundles": (),
        "files": 1,
        "size": 1,
    }
    return Backup(**{**told, **changes})


def torn(backup: Backup) -> UnreadableVerification:
    """Return a verification of a backup whose record cannot be read."""
    return UnreadableVerification(backup=backup.id, problem="checks/000001.json is cut off.")


def verified(
    backup: Backup, level: Level = Level.FULL, *problems: str, after: float = 0.1
) -> Verification:
    """Return what was found of a backup some hours after it was begun."""
    return Verification(
        backup=backup.id,
        level=level,
        verified_at=backup.begun_at + timedelta(hours=after),
        by="test",
        problems=problems,
    )
