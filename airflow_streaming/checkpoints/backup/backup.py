"""
Taking a backup of all checkpoints of a stream under one id.

Every query is pinned for itself, at the newest batch it has committed; queries of one stream do not
wait for each other, so the backup has one batch per query. The manifest is written last. A killed
backup leaves unreferenced packs; the next backup reuses them or retention deletes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from airflow_streaming.checkpoints.backup.bundles import writer_of
from airflow_streaming.checkpoints.backup.live_copy import Source, copy_live
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoints.vault.layout import check_apart
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.model.arguments.choices import Origin


def now_in_utc() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


def take_backup(
    sources: Sequence[Source],
    store: BackupStore,
    *,
    stream: str,
    origin: Origin,
    by: str,
    note: str = "",
    deployment: int | None = None,
    epoch: int | None = None,
    spark_version: str | None = None,
    facts: Mapping[str, str] | None = None,
    attempts: int = 5,
    progress: Progress = no_progress,
    clock: Callable[[], datetime] = now_in_utc,
) -> Backup:
    """
    Back up the checkpoints of a stream; they may be in use and are only read.

    :param sources: A source for each query, with folders that differ; see ``sources_of``.
    :param stream: Name under which the store keeps the backups.
    :param attempts: How often the copy of a query is begun before it is given up.
    :param clock: The time of day, for the record.
    :raises CheckpointRefused: a checkpoint is damaged, of an unknown format, or cannot be copied
        while its query runs; no backup was published.
    :raises CheckpointBusy: a checkpoint changed during every attempt; no backup was published.
    :raises CheckpointError: a folder does not exist.
    :raises SpecError: the store lies inside a checkpoint, or a checkpoint inside the store.
    :raises ValueError: no sources, or two in one folder.
    """
    folders = [source.folder for source in sources]
    if not folders or len(set(folders)) < len(folders) or ("" in folders and len(folders) > 1):
        raise ValueError(f"A backup needs checkpoints with different folders, not {folders}.")
    check_places(sources, store.uri)
    begun_at = clock()
    backup_id = store.new_id(begun_at)
    with store.hold(stream, "backup", backup_id), writer_of(store, stream) as writer:
        copied = [
            copy_live(source, writer, attempts=attempts, progress=progress, checked=writer.checked)
            for source in sources
        ]
        progress(ProgressNow(phase=Phase.PUBLISH))
        bundles = writer.close(member for query in copied for member in query.members)
        backup = Backup(
            id=backup_id,
            stream=stream,
            begun_at=begun_at,
            finished_at=clock(),
            origin=origin,
            by=by,
            queries=tuple(query.query for query in copied),
            bundles=bundles,
            files=sum(query.query.files for query in copied),
            size=sum(query.query.size for query in copied),
            added_files=writer.added_files,
            added_size=writer.added_size,
            note=note,
            deployment=deployment,
            epoch=epoch,
            spark_version=spark_version,
            facts=dict(facts or {}),
        )
        store.publish(backup)
    return backup


def check_places(sources: Sequence[Source], store: str) -> None:
    """
    Refuse a store that overlaps a source; opens and writes no file.

    :raises SpecError: The store overlaps a checkpoint or a sink's log.
    """
    for source in sources:
        check_apart(source.folders.uri, store, other="store")
        if source.sink_log is not None:
            check_apart(source.sink_log.uri, store, what="sink's log", other="store")
