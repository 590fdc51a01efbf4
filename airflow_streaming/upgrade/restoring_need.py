"""What a new deployment left behind of a stream, compared with the backup of the boundary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_streaming.checkpoint.contents import Verified
from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.moved import Moved
from airflow_streaming.checkpoint.reader import Reader
from airflow_streaming.checkpoint.sources import SINK_LOG
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.core.checkpoint.backup import Backup, QueryBackup
from airflow_streaming.core.checkpoint.integrity.chains import Depth
from airflow_streaming.core.checkpoint.reading import read_checkpoint
from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.upgrade.rollback_log import batch_of_entry
from airflow_streaming.core.upgrade.rollback_need import needs_rewind
from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts, SinkHabit
from airflow_streaming.core.uris import join
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.home.home import StreamHome


def why_restore(
    home: StreamHome,
    store: BackupStore,
    backup_id: str,
    *,
    sinks: Sequence[SinkFacts] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """
    Return why the boundary has to be restored, in words; empty when it need not be.

    Then the new deployment failed at once and left no trace: the old one starts again on the same
    checkpoint.

    :param sinks: Of the old deployment.
    :raises BackupNotFound: the store has no such backup.
    :raises BackupDamaged: it is not what was written.
    """
    backup = store.backup(backup_id)
    with store.hold(backup.stream, "restore", backup.id):
        return next(_reasons(home, store, backup, sinks, storage_options), "")


def newest_planned(
    backup: Backup, sinks: Sequence[SinkFacts], options: Mapping[str, Any] | None
) -> dict[str, int | None]:
    """Return the newest batch that each query has planned by now, where the backup was taken."""
    places = {query.folder: query.checkpoint for query in backup.queries}
    found: dict[str, int | None] = {}
    for facts in sinks:
        report = _inspect(places.get(facts.query, ""), options)
        found[facts.query] = None if report is None else report.last_planned_batch
    return found


def _reasons(
    home: StreamHome,
    store: BackupStore,
    backup: Backup,
    sinks: Sequence[SinkFacts],
    options: Mapping[str, Any] | None,
) -> Iterator[str]:
    reading, facts = Verified(store, backup), {sink.query: sink for sink in sinks}
    for query in backup.queries:
        after, sink = _inspect(query.checkpoint, options), facts.pop(query.folder, None)
        if after is None:
            yield f"The checkpoint {query.checkpoint} is gone."
        else:
            reason = _need(reading, query, after, sink, options)
            yield from (f"Query {query.folder!r}: {reason}",) if reason else ()
    current = home.newest_deployment()
    if current is None:
        return
    for name in sorted(facts):
        # It had committed nothing, so no backup has it.
        report = _inspect(join(current.checkpoint, name), options)
        if report is not None and report.last_committed_batch is not None:
            yield f"Query {name!r} has committed its first batches."


def _need(
    reading: Verified,
    query: QueryBackup,
    after: Checkpoint,
    sink: SinkFacts | None,
    options: Mapping[str, Any] | None,
) -> str:
    contents = reading.contents(query.folder)
    moved = Moved(contents, query.checkpoint)
    before = read_checkpoint(moved.listing, moved.read, uri=query.checkpoint, depth=Depth.NAMES)
    entries = (path.removeprefix(f"{SINK_LOG}/") for path in contents.members)
    return needs_rewind(
        before,
        after,
        sink,
        sink_before=_newest_entry(entries),
        sink_after=_sink_batch(sink, options),
    )


def _sink_batch(sink: SinkFacts | None, options: Mapping[str, Any] | None) -> int | None:
    if sink is None or sink.habit is not SinkHabit.FILE_LOG or not sink.target:
        return None
    folders = open_folders(join(sink.target, SINK_LOG), options)
    return _newest_entry(entry.name for entry in folders.entries("", list) or ())


def _inspect(uri: str, options: Mapping[str, Any] | None) -> Checkpoint | None:
    if not uri:
        return None
    try:
        return Reader(open_folders(uri, options)).inspect(contents=False)
    except CheckpointError:
        return None


def _newest_entry(names: Iterator[str]) -> int | None:
    return max((n for n in map(batch_of_entry, names) if n is not None), default=None)
