"""Reads the positions of a query's checkpoint and file sink, and finds the other queries of the sink's folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from airflow_streaming.checkpoints.backup.live_copy import RELATIVE, SINK_LOG
from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete, log_tail
from airflow_streaming.checkpoints.read.journal import COMMITS, OFFSETS, log_batches
from airflow_streaming.checkpoints.repair.decide import SinkPosition
from airflow_streaming.checkpoints.restore.sink_log import newest_batch
from airflow_streaming.checkpoints.state.stores import parse_name
from airflow_streaming.exceptions import AccessDenied, RecordError, StreamingError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.names import base_of
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.repair import SinkRepair
from airflow_streaming.model.records.upgrade import SinkFacts, sink_facts_of
from airflow_streaming.model.spark.listing import FileStat, Listing
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES, parse_commit_log, parse_offset_log
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.uris import is_same_place, join
from airflow_streaming.storage.folders import Folders, open_folders

log: Final = logging.getLogger(__name__)
EPOCHS: Final = 5
"""Newest epochs of a deployment whose plans are read: a launch must not list a year of epochs."""
_FIRST_STORE: Final = "state/0/0"
"""Every stateful operator has its first partition here, or in the folders below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """
    The positions of one query, and where they were read.

    :param planned_at: When the newest plan was made, by the driver's clock.
    """

    position: SinkPosition
    checkpoint: str
    planned_at: datetime | None = None


def file_sinks(home: StreamHome, deployment: Deployment) -> list[SinkFacts]:
    """
    Return the file sinks of a deployment's queries, as its drivers have recorded them.

    Plans of an earlier deployment count where it had the same script, output and arguments: a query that the
    script has no more would not execute its batch again.
    """
    for number in range(deployment.number, 0, -1):
        plans = home.newest_plans(number, epochs=EPOCHS)
        if not plans:
            continue
        wrote = home.deployment(number)
        if _writes(wrote) != _writes(deployment):
            return []
        return _file_sinks(plans, wrote.checkpoint)
    return []


def _file_sinks(plans: Sequence[QueryPlan], checkpoint: str) -> list[SinkFacts]:
    found = sink_facts_of(plans, checkpoint=checkpoint)
    return [facts for facts in found if facts.habit is SinkReplaySemantics.FILE_LOG]


def other_writers(
    home: StreamHome, sinks: Sequence[SinkFacts], query: str, output: str
) -> tuple[str, ...]:
    """
    Return the other queries of the home whose file sink has the same folder, and so the same log.

    A stream whose plans cannot be read is logged and passed over: its damage must not keep all others down.

    :param sinks: File sinks of the stream's own deployment.
    :param query: The query whose sink it is; ``output`` is the folder.
    :raises HomeUnavailable: the home cannot be listed.
    """
    found = [(home.name, facts) for facts in sinks if facts.query != query]
    for stream in Home(home.store).streams():
        if base_of(stream) != base_of(home.name):
            found += [(stream, facts) for facts in _sinks_of(home.beside(stream))]
    return tuple(
        f"query {facts.query!r} of stream {stream!r}"
        for stream, facts in found
        if facts.target and is_same_place(facts.target, output)
    )


def _sinks_of(other: StreamHome) -> list[SinkFacts]:
    try:
        return _file_sinks(other.newest_plans(epochs=EPOCHS), "")
    except (RecordError, AccessDenied) as err:
        log.warning("The plans of stream %s were not read: %s", other.name, err)
        return []


def _writes(deployment: Deployment) -> tuple[object, ...]:
    return deployment.application_sha256, deployment.output, deployment.application_args


def _checkpoint_of(facts: SinkFacts, deployment: Deployment) -> str:
    return facts.own_checkpoint or join(deployment.checkpoint, facts.query)


def is_used(repair: SinkRepair, deployment: Deployment, sinks: Sequence[SinkFacts]) -> bool:
    """
    Tell whether a deployment continues the checkpoint and the output of a repair.

    :param sinks: Of the deployment, see ``file_sinks``; where the query is not among them, the
        place of the checkpoint decides.
    """
    for facts in sinks:
        if facts.query == repair.query:
            place = _checkpoint_of(facts, deployment)
            return is_same_place(place, repair.checkpoint) and is_same_place(
                facts.target, repair.output
            )
    return is_same_place(join(deployment.checkpoint, repair.query), repair.checkpoint)


def look(facts: SinkFacts, deployment: Deployment, options: Mapping[str, Any] | None) -> Looked:
    """
    Look at the checkpoint and, where a batch is open in it, at the sink of one query.

    :raises StreamingError: the checkpoint cannot be read.
    """
    uri = _checkpoint_of(facts, deployment)
    folders = open_folders(uri, options)
    # Offsets first, so that a batch is never seen committed and not planned.
    planned, committed = _newest(folders, OFFSETS), newest_commit(folders)
    position = SinkPosition(
        query=facts.query,
        planned=planned,
        committed=committed,
        sink=None,
        has_state_ids=False,
    )
    if not position.has_open_batch or not _has_state_ids(folders, committed):
        return Looked(position=position, checkpoint=uri)
    sink, unseen, lost = _look_at_log(facts.target, committed, options)
    return Looked(
        position=SinkPosition(
            query=facts.query,
            planned=planned,
            committed=committed,
            sink=sink,
            has_state_ids=True,
            unseen=unseen,
            lost=lost,
        ),
        checkpoint=uri,
        planned_at=_planned_at(folders, planned),
    )


def _look_at_log(
    output: str, committed: int, options: Mapping[str, Any] | None
) -> tuple[int | None, str, str]:
    """Return the newest batch of a sink's log, why it cannot be seen, and which entry it lacks."""
    if not output:
        return None, RELATIVE, ""
    try:
        entries = open_folders(join(output, SINK_LOG), options).entries("", list)
    except StreamingError as err:
        return None, str(err), ""
    if entries is None and committed >= 0:
        return None, f"There is no {join(output, SINK_LOG)}.", ""
    names = [entry.name for entry in entries or () if not entry.is_folder]
    newest = newest_batch(names)
    tail = log_tail(log_listing(names), "", committed)
    return -1 if newest is None else newest, "", tail.path if isinstance(tail, Incomplete) else ""


def log_listing(names: list[str]) -> Listing:
    """Return a sink's log, by the names in its folder, as the readers of logs take it."""
    return Listing({"": {name: FileStat(0) for name in names}})


def _newest(folders: Folders, log_name: str) -> int:
    entries = folders.entries(log_name, list) or ()
    return max(log_batches(entry.name for entry in entries), default=-1)


def newest_commit(folders: Folders) -> int:
    """Return the newest batch that a checkpoint has committed; -1 for none."""
    return _newest(folders, COMMITS)


def _has_state_ids(folders: Folders, committed: int) -> bool:
    """Tell whether the newest commit, or before the first one the state's files, have unique ids."""
    if committed >= 0:
        data = folders.read(f"{COMMITS}/{committed}", MAX_LOG_BYTES)
        return data is not None and bool(parse_commit_log(data).state_ids)
    return any(parsed.unique_id for parsed in filter(None, map(parse_name, _first_files(folders))))


def _first_files(folders: Folders) -> Iterator[str]:
    for entry in folders.entries(_FIRST_STORE, list) or ():
        if entry.is_folder:
            inner = folders.entries(f"{_FIRST_STORE}/{entry.name}", list) or ()
            yield from (one.name for one in inner)
        else:
            yield entry.name


def _planned_at(folders: Folders, batch: int) -> datetime | None:
    try:
        data = folders.read(f"{OFFSETS}/{batch}", MAX_LOG_BYTES)
        milliseconds = None if data is None else parse_offset_log(data).batch_ms
        return None if not milliseconds else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (RecordError, ValueError, OverflowError, OSError):
        return None
