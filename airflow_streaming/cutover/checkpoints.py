"""The checkpoints of a cutover as they lie in their stores: one folder a query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.checkpoint.folders import Folders, open_folders
from airflow_streaming.checkpoint.handing_over import HandOver, absorb_plan, carry, write_plan
from airflow_streaming.checkpoint.query_view import read_view
from airflow_streaming.checkpoint.sink_begin import begin_sink_log
from airflow_streaming.checkpoint.starting import make_start, own_query_id
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.core.cutover.handover.absorbing import Absorption
from airflow_streaming.core.cutover.handover.position import Position
from airflow_streaming.core.cutover.handover.query_view import PlannedBatch
from airflow_streaming.core.cutover.terms import Pair
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.upgrade.rollback_sinks import SinkHabit
from airflow_streaming.core.uris import join
from airflow_streaming.exceptions import CheckpointRefused, RecordError
from airflow_streaming.launch.switching import location

COMPACT_INTERVAL: Final = "spark.sql.streaming.fileSource.log.compactInterval"
SINK_INTERVAL: Final = "spark.sql.streaming.fileSink.log.compactInterval"
_USUAL_INTERVAL: Final = 10


class StoredCheckpoints:
    """
    What is done with the checkpoints of a cutover.

    :param storage_options: Passed to fsspec for checkpoints that are no local folders.
    :param filesystem: An fsspec file system to use instead of a new one.
    """

    def __init__(
        self, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None
    ) -> None:
        self._options: Final[dict[str, Any]] = {
            "storage_options": storage_options,
            "filesystem": filesystem,
        }

    def start(self, pair: Pair, blue: Deployment) -> Mapping[str, str]:
        """Make what green's queries begin with; return the ids of those that have one."""
        found: dict[str, str] = {}
        for query in pair.queries:
            started = make_start(
                pair.start,
                _uri(blue, query),
                _uri(pair.shadow, query),
                query_id=own_query_id(pair.green, pair.shadow.number, query),
                stateless=query not in pair.stateful,
                **self._options,
            )
            if started.query_id:
                found[query] = started.query_id
            if started.batch is not None:
                self._begin_sinks(pair, blue, query, started.batch)
        return found

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

    def look(self, ahead: Deployment, behind: Deployment, query: str) -> HandOver:
        """Say what has to be done in the checkpoint of the lane that takes over."""
        interval = int(behind.conf.get(COMPACT_INTERVAL, _USUAL_INTERVAL))
        return absorb_plan(
            _uri(ahead, query), _uri(behind, query), compact_interval=interval, **self._options
        )

    def plan(self, behind: Deployment, query: str, plan: Absorption) -> None:
        """Write a planned batch."""
        write_plan(_uri(behind, query), plan, **self._options)

    def carry(self, ahead: Deployment, behind: Deployment, query: str) -> str:
        """Make the checkpoint of a query without state from that of a drained lane."""
        query_id = own_query_id(behind.stream, behind.number, query)
        carry(_uri(ahead, query), _uri(behind, query), query_id=query_id, **self._options)
        return query_id

    def query_id(self, deployment: Deployment, query: str) -> str:
        """Return the id in a query's checkpoint; empty while there is none."""
        data = self._folders(deployment, query).read("metadata", MAX_LOG_BYTES)
        try:
            found = json.loads(data or b"{}").get("id", "")
        except (ValueError, AttributeError):
            return ""
        return found if isinstance(found, str) else ""

    def location(self, deployment: Deployment, query: str) -> str:
        """Return the qualified location of a query's checkpoint."""
        return location(_uri(deployment, query))

    def _begin_sinks(self, pair: Pair, blue: Deployment, query: str, batch: int) -> None:
        interval = int(pair.shadow.conf.get(SINK_INTERVAL, _USUAL_INTERVAL))
        for sink in pair.sinks:
            is_log = sink.query == query and sink.habit is SinkHabit.FILE_LOG
            if is_log and blue.output in sink.target:
                output = sink.target.replace(blue.output, pair.shadow.output, 1)
                begin_sink_log(output, batch, interval, **self._options)

    def _folders(self, deployment: Deployment, query: str) -> Folders:
        return open_folders(_uri(deployment, query), **self._options)


def _uri(deployment: Deployment, query: str) -> str:
    return join(deployment.checkpoint, query)
