"""
Green's first checkpoint: empty, cloned, carried over, or by the gate.

Any task can continue a killed one: a whole checkpoint is recognized by the query's id, which is
constant for one deployment, and leftovers of a dead copy on an object store are cleared first. Two
tasks may work at once, and one of them may be hours late: the checkpoint of a started query is
never cleared.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.changes.handover.fast_forward import FastForward, PlannedBatch
from airflow_streaming.changes.handover.handover import (
    HandoverPlan,
    absorb_plan,
    carry,
    read_view,
    write_plan,
)
from airflow_streaming.changes.handover.position import Position
from airflow_streaming.changes.restore.switch import location
from airflow_streaming.checkpoints.backup.records import RestoreMarker
from airflow_streaming.checkpoints.restore.checkpoint_writer import read_back
from airflow_streaming.checkpoints.restore.clone import carry_over, clone
from airflow_streaming.checkpoints.restore.file_sink_rewind import begin_sink_log
from airflow_streaming.checkpoints.restore.target import (
    check_empty_but_for,
    id_in,
    is_dead_copy,
    metadata_id,
    paths_in,
)
from airflow_streaming.exceptions import (
    CheckpointBusy,
    CheckpointRefused,
    RecordError,
    RestoreRefused,
)
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.arguments.choices import SinkReplaySemantics, StartWay
from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.jobs.migration import MARK, MARKER
from airflow_streaming.model.records.cutover import Pair
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.listing import RESTORE_MARKER
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES
from airflow_streaming.model.uris import join
from airflow_streaming.model.wire import parse_json
from airflow_streaming.spark_jobs.migration import migrate_checkpoint
from airflow_streaming.storage.folders import Folders, open_folders
from airflow_streaming.storage.fsspec_store import open_store

YOUNG: Final = timedelta(minutes=5)
"""A copy that began less than this ago may be under way still; it is not cleared."""
_ATTEMPTS: Final = 2
Migrate = Callable[[str, str, str], int]
"""Copies blue's checkpoint to green's, under an id, with migrated state; returns the batch."""
_IDS: Final = uuid.UUID("6b0a1c52-5c0e-4b0e-9b56-6f2d6a1f3c11")

COMPACT_INTERVAL: Final = "spark.sql.streaming.fileSource.log.compactInterval"
SINK_INTERVAL: Final = "spark.sql.streaming.fileSink.log.compactInterval"
_USUAL_INTERVAL: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """
    The start of green's query.

    :param query_id: Id in it; empty for a fresh one, to which Spark gives its id.
    :param batch: Its committed batch; ``None`` for a fresh one.
    """

    uri: str
    query_id: str = ""
    batch: int | None = None


def now_in_utc() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


def make_start(
    start: StartWay,
    blue_uri: str,
    green_uri: str,
    *,
    query_id: str,
    stateless: bool = False,
    migrate: Migrate | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    now: Callable[[], datetime] = now_in_utc,
) -> Started:
    """
    Make the starting checkpoint of one query of green; idempotent.

    Call it before green's first driver starts, never after: a fresh checkpoint that a driver has
    begun to fill looks like another task's.

    :param blue_uri: Blue's checkpoint of the query; it may be running and is only read.
    :param query_id: Green's own id, the same in every attempt; see ``own_query_id``.
    :param stateless: A user vouches that the query has no state, for ``CARRIED``.
    :param migrate: Makes the copy with migrated state, for ``MIGRATED``; ``None`` where the state stays as it is.
    :raises CheckpointRefused: It cannot be copied, or the place has other files.
    :raises CheckpointBusy: Blue changed, or another task was working, during every attempt; try
        again.
    :raises RestoreRefused: The place has other files, or paths in it cannot be rewritten.
    """
    folders = open_folders(green_uri, storage_options, filesystem)
    if start is StartWay.FRESH:
        check_empty_but_for(folders, ())
        return Started(uri=green_uri)
    access: dict[str, Any] = {"storage_options": storage_options, "filesystem": filesystem}
    for _ in range(_ATTEMPTS):
        if id_in(folders) == query_id and not _is_unproved(folders):
            committed = read_view(folders).committed
            return Started(
                uri=green_uri, query_id=query_id, batch=committed.batch if committed else None
            )
        if is_dead_copy(folders) and _clear(folders, query_id, access, now):
            continue
        try:
            if migrate is not None:
                return Started(
                    uri=green_uri, query_id=query_id, batch=migrate(blue_uri, green_uri, query_id)
                )
            if start.is_copy:
                made = clone(blue_uri, green_uri, query_id=query_id, **access)
            else:
                made = carry_over(
                    blue_uri, green_uri, query_id=query_id, stateless=stateless, **access
                )
        except RestoreRefused:
            # Another task that is at the same may have been faster.
            if id_in(folders) != query_id and not is_dead_copy(folders):
                raise
            continue
        return Started(uri=green_uri, query_id=query_id, batch=made.batch)
    raise CheckpointBusy(
        f"{green_uri} is being created by another task at the same time. Try again."
    )


def _is_unproved(folders: Folders) -> bool:
    """Tell whether a migration there was cut off, or is under way."""
    return folders.read(MARKER, len(MARK)) is not None


def own_query_id(lane: str, deployment: int, query: str) -> str:
    """Return the id that a query of a deployment gets; always the same one."""
    return str(uuid.uuid5(_IDS, f"{lane}/{deployment}/{query}"))


def _clear(
    folders: Folders, query_id: str, access: Mapping[str, Any], now: Callable[[], datetime]
) -> bool:
    """Clear the leftovers of a dead copy; return whether it was whole, and was kept."""
    marker = folders.read(RESTORE_MARKER, MAX_LOG_BYTES)
    if marker is None:
        return True
    if age_of(RestoreMarker.from_bytes(marker).begun_at, now()) < YOUNG:
        raise CheckpointBusy(
            f"A copy to {folders.uri} was started less than {duration_text(YOUNG)} ago. If it is dead, it "
            "is cleared after that time."
        )
    paths = paths_in(folders)
    store = open_store(folders.uri, **access)
    # The id is written last: a checkpoint with it is whole, and may be green's own by now.
    if is_whole := metadata_id(folders) == query_id:
        _check_whole(folders, query_id)
        paths = []
    # The marker last: until then the leftovers are not mistaken for a checkpoint.
    for path in (*(path for path in paths if path != RESTORE_MARKER), RESTORE_MARKER):
        # Files listed beside this marker may belong to another task since.
        if folders.read(RESTORE_MARKER, MAX_LOG_BYTES) != marker:
            raise CheckpointBusy(f"{folders.uri} is being created by another task. Try again.")
        store.delete(path)
    return is_whole


def _check_whole(folders: Folders, query_id: str) -> None:
    committed = read_view(folders).committed
    batch = -1 if committed is None else committed.batch
    read_back(folders, folders.uri, batch=batch, query_id=query_id)


class StoredCheckpoints:
    """
    Checkpoint operations of a cutover.

    :param spark: Returns green's Spark and configuration, for a migration of state; ``None`` outside the DAG's tasks.
    """

    def __init__(
        self,
        storage_options: Mapping[str, Any] | None = None,
        filesystem: Any = None,
        spark: Callable[[Pair], tuple[Runtime, Mapping[str, Any]]] | None = None,
    ) -> None:
        self._spark = spark
        self._options: Final[dict[str, Any]] = {
            "storage_options": storage_options,
            "filesystem": filesystem,
        }

    def start(self, pair: Pair, blue: Deployment) -> Mapping[str, str]:
        """Make the starting checkpoints of green's queries; return the known ids."""
        found: dict[str, str] = {}
        for query in pair.queries:
            started = make_start(
                pair.start,
                _uri(blue, query),
                _uri(pair.shadow, query),
                query_id=own_query_id(pair.green, pair.shadow.number, query),
                stateless=query not in pair.stateful,
                migrate=self._migrate(pair, query),
                **self._options,
            )
            if started.query_id:
                found[query] = started.query_id
            if started.batch is not None:
                self._begin_sinks(pair, blue, query, started.batch)
        return found

    def _migrate(self, pair: Pair, query: str) -> Migrate | None:
        migration = next((one for one in pair.migrations if one.query == query), None)
        if migration is None:
            return None
        if self._spark is None:
            raise CheckpointBusy("Only a task of the stream's DAG can migrate the state of green.")
        runtime, conf = self._spark(pair)

        def migrate(blue_uri: str, green_uri: str, query_id: str) -> int:
            return migrate_checkpoint(
                *(blue_uri, green_uri, migration, runtime),
                conf=conf,
                query_id=query_id,
                storage_options=self._options["storage_options"],
            ).batch

        return migrate

    def position(self, deployment: Deployment, query: str, batch: int | None = None) -> Position:
        """Return how far a query is, or was with a committed batch."""
        folders = self._folders(deployment, query)
        view = read_view(folders)
        if batch is None or (view.committed is not None and view.committed.batch == batch):
            return view.position
        data = folders.read(f"offsets/{batch}", MAX_LOG_BYTES)
        if data is None:
            raise CheckpointRefused(f"offsets/{batch} of {folders.uri} is cleaned up already.")
        try:
            return view.at(PlannedBatch.parse(batch, data))
        except RecordError as err:
            raise CheckpointRefused(
                f"offsets/{batch} of {folders.uri} cannot be used: {err}"
            ) from err

    def look(self, ahead: Deployment, behind: Deployment, query: str) -> HandoverPlan:
        interval = int(behind.conf.get(COMPACT_INTERVAL, _USUAL_INTERVAL))
        return absorb_plan(
            _uri(ahead, query), _uri(behind, query), compact_interval=interval, **self._options
        )

    def plan(self, behind: Deployment, query: str, plan: FastForward) -> None:
        """Write a planned batch."""
        write_plan(_uri(behind, query), plan, **self._options)

    def carry(self, ahead: Deployment, behind: Deployment, query: str) -> str:
        query_id = own_query_id(behind.stream, behind.number, query)
        carry(_uri(ahead, query), _uri(behind, query), query_id=query_id, **self._options)
        return query_id

    def query_id(self, deployment: Deployment, query: str) -> str:
        data = self._folders(deployment, query).read("metadata", MAX_LOG_BYTES)
        try:
            found = parse_json(data or b"{}").get("id", "")
        except RecordError:
            return ""
        return found if isinstance(found, str) else ""

    def location(self, deployment: Deployment, query: str) -> str:
        """Return the qualified location of a query's checkpoint."""
        return location(_uri(deployment, query))

    def _begin_sinks(self, pair: Pair, blue: Deployment, query: str, batch: int) -> None:
        interval = int(pair.shadow.conf.get(SINK_INTERVAL, _USUAL_INTERVAL))
        for sink in pair.sinks:
            is_log = sink.query == query and sink.habit is SinkReplaySemantics.FILE_LOG
            if is_log and blue.output in sink.target:
                output = sink.target.replace(blue.output, pair.shadow.output, 1)
                begin_sink_log(output, batch, interval, **self._options)

    def _folders(self, deployment: Deployment, query: str) -> Folders:
        return open_folders(_uri(deployment, query), **self._options)


def _uri(deployment: Deployment, query: str) -> str:
    return join(deployment.checkpoint, query)
