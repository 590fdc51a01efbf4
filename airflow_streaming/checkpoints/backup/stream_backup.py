"""
Back up a managed stream: its home names the checkpoints and the Spark version.

The deployment names the folder of the checkpoints; a script may have chosen other places for some
queries, and the claims record these. A query without a committed batch has no state to restore, and
is left out if another one has.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import (
    SINK_LOG,
    Source,
    sources_of,
    with_only_query,
)
from airflow_streaming.checkpoints.backup.recorded_sinks import with_known_logs
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointError, CheckpointRefused, NothingYet, SpecError
from airflow_streaming.home.home import StreamHome, removed_text
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.names import is_path_part
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.status import CheckpointOrigin
from airflow_streaming.model.uris import in_full, is_same_place, join
from airflow_streaming.storage.folders import Folders, open_folders

log: Final = logging.getLogger(__name__)


Open = Callable[[str], Folders]
"""Opens a checkpoint for reading, with the credentials for it."""


_BACKUPS: Final = "_backups"
_MOST_EPOCHS: Final = 1000
"""Epochs that are searched for a batch."""


def default_store(home: str) -> str:
    """Return where the backups of a home's streams lie unless told otherwise: no stream's name."""
    return join(home, _BACKUPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRequest:
    """
    Options of a backup besides stream and store.

    :param sink_logs: URI of a file sink's output folder by query; the name may be empty for an only
        query. Its log is backed up too. Default: the sinks that the stream's drivers recorded.
    :param facts: Additional facts for the record.
    :param open_folders: Opens the checkpoints and outputs.
    """

    origin: Origin
    by: str
    note: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    sink_logs: Mapping[str, str] = field(default_factory=dict)
    open_folders: Open = open_folders
    progress: Progress = no_progress
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


def back_up_stream(home: StreamHome, store: BackupStore, request: BackupRequest) -> Backup:
    """
    Back up all queries of a stream's newest deployment, while they run or not.

    The logs of file sinks that its drivers have recorded come along.

    :raises NothingYet: the stream has committed no batch yet, or was removed.
    :raises CheckpointRefused: it cannot be backed up, with the reason.
    :raises CheckpointBusy: a checkpoint changed under every attempt.
    """
    deployment, epoch = begun_deployment(home), home.newest_epoch()
    sources = stream_sources(home, deployment, request)
    return take_backup(
        with_known_logs(home, deployment, sources, request.open_folders),
        store,
        stream=home.name,
        origin=request.origin,
        by=request.by,
        note=request.note,
        facts=request.facts,
        deployment=deployment.number,
        epoch=None if epoch is None else epoch.number,
        spark_version=deployment.spark_version,
        progress=request.progress,
        clock=request.clock,
    )


def back_up(checkpoint: str, name: str, store: BackupStore, request: BackupRequest) -> Backup:
    """
    Back up a checkpoint, or those directly under a folder, that belong to no stream of ours.

    :param name: The name under which the backups are kept; see ``naming``.
    :raises CheckpointRefused: it cannot be backed up, with the reason.
    :raises CheckpointBusy: it changed under every attempt.
    """
    found = sources_of(request.open_folders(checkpoint))
    sinks = _sinks(request, [source.folder for source in found])
    sources = [
        replace(source, sink_log=_sink_log(source.folder, sinks, request)) for source in found
    ]
    return take_backup(
        sources,
        store,
        stream=name,
        origin=request.origin,
        by=request.by,
        note=request.note,
        facts=request.facts,
        progress=request.progress,
        clock=request.clock,
    )


def backup_before(home: StreamHome, store: BackupStore, request: BackupRequest) -> str:
    """
    Back up a stream before an upgrade or restore.

    :returns: The backup's id; empty without a checkpoint to lose.
    :raises CheckpointError: There is a checkpoint, and it could not be backed up.
    """
    deployment = home.newest_deployment()
    if deployment is None or not _has_anything(home, deployment, request):
        log.info("Stream %s has no checkpoint yet, so nothing was backed up.", home.name)
        return ""
    backup = back_up_stream(home, store, request)
    log.info("Stream %s was backed up: %s.", home.name, backup.id)
    return backup.id


def begun_deployment(home: StreamHome) -> Deployment:
    """
    Return the newest deployment of a stream.

    :raises NothingYet: the stream has none, or was removed.
    """
    deployment = home.newest_deployment()
    if deployment is None:
        raise NothingYet(why_nothing_yet(home))
    return deployment


def why_nothing_yet(home: StreamHome) -> str:
    """
    Return why a stream has no checkpoint; empty once a driver has reported a batch.

    A checkpoint that is missing after that was lost.
    """
    removal = home.removal()
    if removal is not None:
        return f"{removed_text(home.name, removal)} Delete the DAGs of the removed stream."
    if home.newest_deployment() is None:
        return (
            f"Stream {home.name!r} was never started, so it has no checkpoint. Start it, or correct "
            "the name. If it has run before, check that the home is mounted whole."
        )
    epochs = home.statuses_between(0, sys.maxsize, most=_MOST_EPOCHS)
    if any(query.batches or query.progress for status in epochs for query in status.queries):
        return ""
    return (
        f"Stream {home.name!r} has committed no batch yet, so it has no checkpoint. The next run after "
        "its first batch finds one."
    )


def stream_sources(
    home: StreamHome, deployment: Deployment, request: BackupRequest
) -> list[Source]:
    """
    Return the checkpoints of a deployment's queries, by query.

    Checkpoints without a committed batch are left out, unless all are.

    :raises NothingYet: No batch was committed yet.
    :raises CheckpointError: The place has no checkpoint.
    :raises SpecError: A sink has no query name, and there are several queries.
    """
    elsewhere = dict(_elsewhere(home))
    try:
        own = sources_of(request.open_folders(deployment.checkpoint))
    except CheckpointRefused:
        raise
    except CheckpointError as err:
        if not elsewhere:
            raise _nothing_yet_or(err, home) from err
        own = []
    places = {source.folder: source.folders for source in own}
    for query, uri in elsewhere.items():
        if query in places and not is_same_place(places[query].uri, uri):
            log.warning(
                "%s is a left-over: the script of stream %s keeps the checkpoint of query %r at %s "
                "now, and that is the one backed up.",
                places[query].uri,
                home.name,
                query,
                uri,
            )
        places[query] = request.open_folders(uri)
    sinks = _sinks(request, places)
    committed = {query for query, folders in places.items() if has_committed(folders)}
    if not committed and (reason := why_nothing_yet(home)):
        raise NothingYet(reason)
    for query in sorted(set(places) - committed if committed else ()):
        log.warning("Query %r of stream %s has committed no batch yet.", query, home.name)
    return [
        Source(folder=query, folders=folders, sink_log=_sink_log(query, sinks, request))
        for query, folders in sorted(places.items())
        if query in committed or not committed
    ]


def has_committed(folders: Folders) -> bool:
    """Tell whether a checkpoint has a committed batch."""
    return any(entry.name.isdecimal() for entry in folders.entries("commits", list) or ())


def _nothing_yet_or(err: CheckpointError, home: StreamHome) -> CheckpointError:
    reason = why_nothing_yet(home)
    return NothingYet(reason) if reason else err


def _has_anything(home: StreamHome, deployment: Deployment, request: BackupRequest) -> bool:
    try:
        return any(
            has_committed(source.folders) for source in stream_sources(home, deployment, request)
        )
    except CheckpointRefused:
        raise
    except CheckpointError:
        return False


def _sinks(request: BackupRequest, queries: Collection[str]) -> dict[str, str]:
    sinks = with_only_query(request.sink_logs, queries)
    unknown = sorted(set(sinks) - set(queries))
    names = ", ".join(sorted(queries))
    if "" in unknown:
        raise SpecError(
            f"The output {sinks['']!r} of a file sink needs a query name, because the stream has "
            f"several. Use --sink QUERY=OUTPUT (sink_logs by query). Queries: {names}."
        )
    for query in unknown:
        log.warning(
            "The configured file sink of query %r has no checkpoint yet, or the name is "
            "misspelled. Queries: %s.",
            query,
            names,
        )
    return sinks


def _sink_log(query: str, sinks: Mapping[str, str], request: BackupRequest) -> Folders | None:
    output = sinks.get(query)
    return None if output is None else request.open_folders(join(output, SINK_LOG))


def _elsewhere(home: StreamHome) -> Iterator[tuple[str, str]]:
    """Return the queries whose checkpoint the script has put somewhere itself, as last seen."""
    epoch = home.newest_epoch()
    while epoch is not None and epoch.cause is LaunchCause.FENCE and epoch.number > 1:
        # No driver was ever started for it; the one before it had the checkpoints.
        epoch = home.epoch(epoch.number - 1)
    status = None if epoch is None else home.status(epoch.number)
    for query in status.queries if status is not None else ():
        if query.checkpoint_origin is CheckpointOrigin.SCRIPT and is_path_part(query.name):
            yield query.name, in_full(query.checkpoint)
