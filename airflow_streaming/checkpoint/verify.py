"""
Verifying a backup: that it is what was written, as far as the level says.

Quick looks at the manifest, the indexes and the sizes of all objects. Full reads every byte. A
drill is a full verification and then somebody else's act: a function that tries the backup out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from airflow_streaming.checkpoint.away import is_for_want_of_rights
from airflow_streaming.checkpoint.examining import Examination, Found, Progress
from airflow_streaming.checkpoint.known import DAMAGED, MAX_NAMED, NAMED
from airflow_streaming.checkpoint.layout import manifest_path
from airflow_streaming.checkpoint.reading import ADVICE
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.checkpoint.strangers import note_strangers
from airflow_streaming.core.checkpoint.backup import Backup, Level, Verification
from airflow_streaming.core.checkpoint.drill import Drilled
from airflow_streaming.exceptions import BackupDamaged, BackupNotFound, HomeUnavailable, RecordError

log: Final = logging.getLogger(__name__)

__all__ = ["Drill", "Progress", "verify"]

MAX_PROBLEMS: Final = 100
"""Sentences that are recorded; a store that lost a disk would have a million."""

Drill = Callable[[BackupStore, Backup], Drilled]


def verify(
    store: BackupStore,
    backup_id: str,
    level: Level,
    *,
    by: str,
    now: datetime,
    stream: str | None = None,
    drill: Drill | None = None,
    progress: Progress | None = None,
) -> Verification:
    """
    Verify a backup and record what was found, good or bad, where the store may be written.

    :param drill: Tries out a backup that was found whole; needed for that level.
    :raises BackupNotFound: the store has no such backup; nothing is recorded.
    :raises ValueError: a drill was asked for and none given.
    """
    if level is Level.DRILL and drill is None:
        raise ValueError("A drill was asked for, and nothing was given that could do it.")
    where = store.stream_of(backup_id, stream)
    with store.hold(where, "verify", backup_id):
        try:
            backup = store.backup(backup_id, where)
        except (BackupDamaged, RecordError) as err:
            found, drilled = Found(), Drilled()
            found.note(manifest_path(where, backup_id), str(err))
        else:
            found = _examine(store, backup, level, progress)
            drilled = Drilled()
            if level is Level.DRILL and drill is not None and not found.problems:
                drilled = drill(store, backup)
        verification = Verification(
            backup=backup_id,
            level=level,
            verified_at=now,
            by=by,
            problems=_shortened([*found.problems, *drilled.problems]),
            facts={**drilled.facts, **_facts(found)},
        )
        _record(store, verification, where)
    return verification


def _record(store: BackupStore, verification: Verification, stream: str) -> None:
    try:
        store.record(verification, stream)
    except HomeUnavailable as err:
        if not is_for_want_of_rights(err):
            raise
        log.warning(
            "%s may not be written, so what this verification found is not noted there: lists and "
            "retention do not know of it.",
            store.uri,
        )


def _examine(store: BackupStore, backup: Backup, level: Level, progress: Progress | None) -> Found:
    thorough = level is not Level.QUICK
    found = Examination(store, backup, thorough=thorough, progress=progress).run()
    if thorough:
        note_strangers(store, backup, found)
    try:
        # It was there when the examination began; bytes rot and people delete at any time.
        store.backup(backup.id, backup.stream)
    except (BackupDamaged, BackupNotFound, RecordError) as err:
        found.problems.append(f"While it was verified, this happened: {err} {ADVICE}")
    return found


def _facts(found: Found) -> dict[str, str]:
    facts = {
        "files": str(found.files),
        "size": str(found.size),
        "objects": str(found.objects),
        "bytes_read": str(found.read),
        DAMAGED: str(len(found.damaged)),
    }
    if found.damaged:
        facts[NAMED] = " ".join(sorted(found.damaged)[:MAX_NAMED])
    return facts


def _shortened(problems: Sequence[str]) -> tuple[str, ...]:
    if len(problems) <= MAX_PROBLEMS:
        return tuple(problems)
    more = len(problems) - MAX_PROBLEMS
    return (*problems[:MAX_PROBLEMS], f"There are {more} more problems of this kind.")
