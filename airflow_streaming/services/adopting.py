"""
Copies the checkpoints of an existing application into a home, where the first launch of a stream continues them.

A checkpoint is backed up, the backup is verified while it is restored into the place at which the first deployment
looks for it, and the original is read only. A run that dies is repeated: no deployment names the place yet, so
the run writes the copies anew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from airflow_streaming.changes.adoption import Continued, OldCheckpoint
from airflow_streaming.checkpoints.backup.live_copy import sources_of
from airflow_streaming.checkpoints.backup.stream_backup import BackupRequest, back_up
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore.replay import ACCEPTABLE
from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import RestoreRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import Event, EventKind
from airflow_streaming.model.uris import join
from airflow_streaming.storage.blobs import Blobs
from airflow_streaming.storage.folders import open_folders

log: Final = logging.getLogger(__name__)
WATCH: Final = 10.0
"""Seconds between two looks at a checkpoint that tell whether an application writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A copied checkpoint."""

    query: str
    to: str
    backup: str
    batch: int


def checkpoints_to_adopt(place: str, named: Mapping[str, str]) -> list[OldCheckpoint]:
    """
    Return the checkpoints that an application continues.

    :param place: A checkpoint, or the folder above several; empty without one.
    :param named: URIs of further checkpoints by the name of the query.
    :raises CheckpointError: No checkpoint, or one cannot be read.
    """
    found = dict(named)
    if place:
        sources = sources_of(open_folders(place))
        found |= {
            one.folder or place.rstrip("/").rpartition("/")[2]: one.folders.uri for one in sources
        }
    return [_old(name, inspect(uri)) for name, uri in sorted(found.items())]


def _old(name: str, found: Checkpoint) -> OldCheckpoint:
    return OldCheckpoint(
        uri=found.uri,
        name=name,
        batch=found.last_committed_batch,
        is_stateful=found.is_stateful,
        sources=tuple(one.source.value for one in found.sources),
        spark=found.spark_at_least or "",
        problems=tuple(one.message for one in found.problems),
    )


def writers(
    found: Sequence[OldCheckpoint],
    pause: Callable[[float], None] = time.sleep,
    watch: float = WATCH,
) -> list[str]:
    """Return which checkpoints change while they are watched, a sentence each."""
    before = [_position(one.uri) for one in found]
    pause(watch)
    return [
        f"{one.uri} changed within {duration_text(watch)}: an application still writes it. Stop that application."
        for one, then in zip(found, before, strict=True)
        if _position(one.uri) != then
    ]


def _position(uri: str) -> tuple[object, ...]:
    found = inspect(uri)
    return found.last_planned_batch, found.last_committed_batch, found.files, found.size


def place_in_home(stream: StreamHome) -> str:
    """
    Return where the first deployment of a stream has its checkpoints.

    :raises RestoreRefused: the stream has a deployment.
    """
    newest = stream.newest_deployment()
    if newest is not None:
        raise RestoreRefused(
            f"Stream {stream.name!r} has deployment {newest.number} already, which has a checkpoint. Choose another "
            "name, or restore a backup: airflow-streaming checkpoint restore."
        )
    return join(stream.store.uri, Layout(stream.name).checkpoint(stream.next_deployment()))


def adopt(
    stream: StreamHome,
    blobs: Blobs,
    store: BackupStore,
    queries: Sequence[Continued],
    *,
    by: str,
    reason: str,
    progress: Progress = no_progress,
) -> list[Adopted]:
    """
    Copy checkpoints to the place at which the first launch of a stream continues them.

    :param queries: Checkpoints with their places; see ``place_in_home``.
    :raises RestoreRefused: the stream has a deployment, or an application still writes a checkpoint.
    :raises CheckpointError: a checkpoint cannot be copied, or its backup is not sound.
    """
    folder = Layout(stream.name).checkpoint(stream.next_deployment())
    place_in_home(stream)
    stream.check_not_removed()
    # Of a run that died; no deployment names this place yet.
    blobs.delete_tree(folder)
    before = [_position(one.checkpoint.uri) for one in queries]
    done = [_copy(stream, store, one, by, reason, progress) for one in queries]
    # A DAG that made a deployment meanwhile may have started a driver on half a copy: it is not deleted.
    place_in_home(stream)
    moved = [
        one.checkpoint.uri
        for one, then in zip(queries, before, strict=True)
        if _position(one.checkpoint.uri) != then
    ]
    if moved:
        blobs.delete_tree(folder)
        raise RestoreRefused(
            f"{', '.join(moved)} changed while it was copied: an application still writes it. The copies were "
            "removed. Stop that application and adopt again."
        )
    for one in done:
        _tell(stream, one, by, reason)
    return done


def _copy(
    stream: StreamHome, store: BackupStore, one: Continued, by: str, reason: str, progress: Progress
) -> Adopted:
    request = BackupRequest(
        origin=Origin.MANUAL, by=by, note=f"Adopted: {reason}", progress=progress
    )
    backup = back_up(one.checkpoint.uri, stream.name, store, request)
    # The newest batch is restored, so no sink is put behind its checkpoint.
    place = Place(to=one.to)
    restored = restore(store, backup.id, place, accept=ACCEPTABLE, progress=progress)
    log.info("Query %s continues at %s.", one.query, ", ".join(restored.checkpoints.values()))
    return Adopted(query=one.query, to=one.to, backup=backup.id, batch=backup.queries[0].batch)


def _tell(stream: StreamHome, one: Adopted, by: str, reason: str) -> None:
    stream.add_event(
        Event(
            event=EventKind.CHECKPOINT_CHANGED,
            at=datetime.now(UTC),
            by=by,
            message=f"Query {one.query} continues an adopted checkpoint from batch {one.batch}: {reason}",
            facts={"backup": one.backup, "checkpoint": one.to},
        )
    )
