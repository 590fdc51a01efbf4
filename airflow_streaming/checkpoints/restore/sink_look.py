"""A look at a file sink: how far its log has got, and what restores have moved out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG
from airflow_streaming.checkpoints.backup.recorded_sinks import RELATIVE
from airflow_streaming.checkpoints.restore.file_sink_rewind import ASIDE
from airflow_streaming.checkpoints.restore.sink_log import batch_of_entry, newest_batch
from airflow_streaming.checkpoints.restore.sink_output import names_in
from airflow_streaming.checkpoints.restore.sink_step import MovedAside, SinkSight
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.storage.folders import open_folders


def look(log: str, options: Mapping[str, Any] | None) -> SinkSight:
    """
    Look at a file sink's log, and at what was moved out of it.

    :param log: URI of its ``_spark_metadata``; empty when a relative path is all that is recorded.
    :param options: Passed to fsspec for an output that is no local folder.
    """
    if not log:
        return SinkSight(log="", unseen=RELATIVE)
    try:
        entries = open_folders(log, options).entries("", list)
        if entries is None:
            return SinkSight(log=log, unseen=f"there is none at {log}.")
        newest = newest_batch(entry.name for entry in entries)
        aside = _aside(log, options)
    except StreamingError as err:
        return SinkSight(log=log, unseen=str(err))
    return SinkSight(log=log, newest=-1 if newest is None else newest, aside=aside)


def _aside(log: str, options: Mapping[str, Any] | None) -> tuple[MovedAside, ...]:
    output, _, name = log.rstrip("/").rpartition("/")
    if name != SINK_LOG or not output:
        return ()
    folders = open_folders(output, options)
    found = []
    for entry in folders.entries(ASIDE, list) or ():
        if entry.is_folder:
            names = names_in(folders, f"{ASIDE}/{entry.name}/log")
            batches = frozenset(n for n in map(batch_of_entry, names) if n is not None)
            found.append(MovedAside(uri=f"{output}/{ASIDE}/{entry.name}", batches=batches))
    return tuple(sorted(found, key=lambda one: one.uri))
