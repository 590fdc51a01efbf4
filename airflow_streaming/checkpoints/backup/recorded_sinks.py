"""
Sinks that a stream's drivers recorded, and the logs of its file sinks.

A backup copies such a log unless another place is configured: a restore that resets the sink with
the checkpoint needs it. A log that ends before the checkpoint's newest batch, or cannot be read, is
left out with a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from airflow_streaming.checkpoints.backup.live_copy import RELATIVE, SINK_LOG, Source
from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete, log_tail
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import SinkFacts, sink_facts_of
from airflow_streaming.model.uris import join
from airflow_streaming.storage.folders import Folders, walk

log: Final = logging.getLogger(__name__)


def known_sinks(home: StreamHome, deployment: Deployment) -> tuple[SinkFacts, ...]:
    """Return the recorded sinks of a deployment, or of the newest one before it that ran."""
    plans = next(filter(None, map(home.newest_plans, range(deployment.number, 0, -1))), [])
    return sink_facts_of(plans, checkpoint=deployment.checkpoint)


def known_logs(home: StreamHome, deployment: Deployment) -> dict[str, str]:
    """Return the log of each file sink of a stream, by query; empty where its path is relative."""
    return {
        facts.query: join(facts.target, SINK_LOG) if facts.target else ""
        for facts in known_sinks(home, deployment)
        if facts.habit is SinkReplaySemantics.FILE_LOG
    }


def with_known_logs(
    home: StreamHome,
    deployment: Deployment,
    sources: Iterable[Source],
    open_folders: Callable[[str], Folders],
) -> list[Source]:
    """
    Add the known log of each file sink without a configured one.

    :param open_folders: Opens the outputs, with their credentials.
    """
    found = list(sources)
    try:
        logs = known_logs(home, deployment)
    except StreamingError as err:
        log.warning("The sinks of stream %r are unknown: %s", home.name, err)
        return found
    return [
        replace(source, sink_log=_whole(source, logs[source.folder], open_folders))
        if source.sink_log is None and source.folder in logs
        else source
        for source in found
    ]


def _whole(source: Source, uri: str, open_folders: Callable[[str], Folders]) -> Folders | None:
    why = RELATIVE
    if uri:
        try:
            folders = open_folders(uri)
            why = _lacks(source, folders)
        except StreamingError as err:
            why = str(err)
    if not why:
        return folders
    log.warning("The file sink's log of query %r is not backed up: %s", source.folder, why)
    return None


def _lacks(source: Source, folders: Folders) -> str:
    """Return why a log cannot be copied; empty when it can."""
    # First the checkpoint, then the log, which has a batch before the checkpoint has committed it.
    commits = source.folders.entries("commits", list) or ()
    newest = max((int(entry.name) for entry in commits if entry.name.isdecimal()), default=-1)
    if folders.entries("", list) is None:
        return f"no log at {folders.uri}."
    tail = log_tail(walk(folders), "", newest)
    return f"{folders.uri}: {tail.why}" if isinstance(tail, Incomplete) else ""
