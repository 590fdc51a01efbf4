"""
Delete one named backup that is not needed.

Refused are the last good backup of a checkpoint, a backup that an open change may return to, and a
backup in use. The user and the reason are recorded first. A later retention run deletes the
objects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.progress import no_progress
from airflow_streaming.checkpoints.vault.backup_trust import BackupTrust, standing
from airflow_streaming.checkpoints.vault.garbage_collection import GarbageCollector
from airflow_streaming.checkpoints.vault.layout import removal_path
from airflow_streaming.checkpoints.vault.retention import HomeOpener, problems_of, standing_of
from airflow_streaming.checkpoints.vault.retention_policy import ChangeStanding, change_of
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import (
    AlreadyExists,
    BackupDamaged,
    CheckpointRefused,
    RecordError,
)
from airflow_streaming.home.home import open_home
from airflow_streaming.model.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRemoval(Record):
    """
    The record of a backup that was deleted by name.

    :param manifest: SHA-256 of the deleted manifest; empty if it was unreadable.
    """

    KIND: ClassVar[str] = "backup-removal"

    backup: str
    by: str
    reason: str
    at: datetime
    manifest: str = ""


def delete_named(
    store: BackupStore,
    backup_id: str,
    *,
    by: str,
    reason: str,
    stream: str | None = None,
    dry_run: bool = True,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    homes: HomeOpener = open_home,
) -> str:
    """
    Delete one backup; a second call finishes an interrupted one.

    :param dry_run: Only check whether it could be deleted.
    :param homes: Opens the home of the change that the backup was taken for.
    :returns: The backup's stream.
    :raises CheckpointRefused: The backup is needed; it was not deleted.
    """
    where = store.stream_of(backup_id, stream)
    now = clock()
    stored = now if dry_run else store.clock()
    collector = GarbageCollector(
        store=store, stream=where, by=by, now=now, stored=stored, progress=no_progress
    )
    refusal = _in_use(collector, backup_id) or _refusal(store, where, backup_id, homes)
    if refusal:
        raise CheckpointRefused(f"Backup {backup_id} of {where} was not deleted: {refusal}")
    if dry_run:
        return where
    removal = BackupRemoval(
        backup=backup_id,
        by=by,
        reason=reason,
        at=now,
        manifest=store.manifest_digest(backup_id, where),
    )
    # There is one when a run was killed before the manifest went: the first word counts.
    with contextlib.suppress(AlreadyExists):
        store.blobs.create(removal_path(where, backup_id), removal.to_bytes())
    store.delete_backup(backup_id, where)
    return where


def _in_use(collector: GarbageCollector, backup_id: str) -> str:
    for held in collector.living():
        if held.hold is None or held.hold.backup in ("", backup_id):
            return "a task works with the backups of this stream just now. Try again later."
    return ""


def _refusal(store: BackupStore, stream: str, backup_id: str, homes: HomeOpener) -> str:
    try:
        backup = store.backup(backup_id, stream)
    except (BackupDamaged, RecordError):
        return ""  # it cannot be restored, and keeps retention from collecting anything
    change = change_of(backup)
    if change is not None and standing_of(change, stream, homes) is not ChangeStanding.ENDED:
        return f"it was taken for {change.in_words}, which is still open or cannot be read."
    if standing(store.verifications(backup_id, stream)) is BackupTrust.DAMAGED:
        return ""
    return _last_good(store, backup)


def _last_good(store: BackupStore, backup: Backup) -> str:
    others = [one for one in store.backups(backup.stream) if one.id != backup.id]
    for checkpoint in sorted({query.checkpoint for query in backup.queries}) or [""]:
        if not any(_is_good(store, one) for one in _of(others, checkpoint)):
            what = checkpoint or f"stream {backup.stream}"
            return f"it is the last good one of {what}. Take another one first."
    return ""


def _of(backups: Iterable[Backup], checkpoint: str) -> Iterable[Backup]:
    for backup in backups:
        if not checkpoint or checkpoint in {query.checkpoint for query in backup.queries}:
            yield backup


def _is_good(store: BackupStore, backup: Backup) -> bool:
    word = standing(store.verifications(backup.id, backup.stream))
    is_trusted = word in (BackupTrust.VERIFIED, BackupTrust.UNVERIFIED)
    return is_trusted and not problems_of(store, backup)
